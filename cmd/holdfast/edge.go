package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"

	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/lifecycle"
	"github.com/holdfast-run/holdfast/internal/telemetry"
)

// EdgeSettings say where the services are that the edge puts on one address.
type EdgeSettings struct {
	EdgeTriggerURL   string `name:"edge-trigger-url" group:"http" default:"http://127.0.0.1:8701" help:"Where the edge finds trigger (${default})."`
	EdgeToolsURL     string `name:"edge-tools-url" group:"http" default:"http://127.0.0.1:8702" help:"Where the edge finds tools (${default})."`
	EdgeApprovalsURL string `name:"edge-approvals-url" group:"http" default:"http://127.0.0.1:8703" help:"Where the edge finds approvals (${default})."`
	EdgeConsoleURL   string `name:"edge-console-url" group:"http" default:"http://127.0.0.1:8704" help:"Where the edge finds console (${default})."`
}

func (e EdgeSettings) upstreams() map[string]string {
	return map[string]string{
		"trigger": e.EdgeTriggerURL, "tools": e.EdgeToolsURL, "approvals": e.EdgeApprovalsURL, "console": e.EdgeConsoleURL,
	}
}

// addEdge adds the path proxy. It keeps no state and checks no token: each
// service does, and the edge forwards what it was sent.
func (p *process) addEdge(e EdgeSettings, addr string) error {
	handler, err := p.edgeHandler(e)
	if err != nil {
		return err
	}
	p.part("edge", func(context.Context) (lifecycle.Service, error) {
		p.http = door.NewServer(addr, handler)
		return p.http, nil
	})
	return nil
}

func (p *process) edgeHandler(e EdgeSettings) (http.Handler, error) {
	proxies := map[string]http.Handler{}
	for name, text := range e.upstreams() {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, usage(fmt.Errorf("--edge-%s-url: %q is not an http URL", name, text))
		}
		proxies[name] = p.proxy(name, u)
	}
	return join(emptyDoors(nil), func(service string) http.Handler { return proxies[service] })
}

func (p *process) proxy(service string, upstream *url.URL) http.Handler {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil // the services are ours
	transport.MaxIdleConnsPerHost = 64
	transport.DisableCompression = true // bytes pass as they are
	return &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1, // event streams
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(upstream)
			r.Out.Host = r.In.Host // links and the check of origins are about the address that was asked for
			r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
			r.SetXForwarded()
			if r.In.Header.Get("X-Forwarded-Proto") == "https" { // who ended TLS before us; a lie is about its teller only
				r.Out.Header.Set("X-Forwarded-Proto", "https")
			}
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() != nil {
				return // the client has gone
			}
			p.log.Warn("service not reached", telemetry.KeyService, service, telemetry.KeyErr, err)
			w.Header().Set("Retry-After", "1")
			door.Fail(w, r, door.Error(http.StatusServiceUnavailable, "unavailable",
				fmt.Sprintf("the service %s is not answering; the same request may be sent again with the same Idempotency-Key", service)))
		},
	}
}
