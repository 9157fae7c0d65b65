package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"

	"github.com/holdfast-run/holdfast/internal/config"
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
	EdgeCA           string `name:"edge-ca" group:"http" placeholder:"FILE" help:"Authorities of the services' certificates, where those URLs are https."`
	EdgeCert         string `name:"edge-cert" group:"http" placeholder:"FILE" help:"Certificate that the edge shows to the services, read again for each connection."`
	EdgeKey          string `name:"edge-key" group:"http" placeholder:"FILE" help:"Its key."`
}

func (e EdgeSettings) upstreams() map[string]string {
	return map[string]string{
		"trigger": e.EdgeTriggerURL, "tools": e.EdgeToolsURL, "approvals": e.EdgeApprovalsURL, "console": e.EdgeConsoleURL,
	}
}

func (e EdgeSettings) validate() error {
	if (e.EdgeCert == "") != (e.EdgeKey == "") {
		return errors.New("--edge-cert and --edge-key belong together")
	}
	return nil
}

// tls is how the edge connects to services over https; nil is the system's way.
func (e EdgeSettings) tls() (*tls.Config, error) {
	if e.EdgeCA == "" && e.EdgeCert == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	var err error
	if e.EdgeCA != "" {
		if c.RootCAs, err = config.ReadAuthorities(e.EdgeCA); err != nil {
			return nil, err
		}
	}
	if e.EdgeCert != "" {
		read := func() (*tls.Certificate, error) {
			cert, err := tls.LoadX509KeyPair(e.EdgeCert, e.EdgeKey)
			return &cert, err
		}
		if _, err := read(); err != nil {
			return nil, fmt.Errorf("read %s: %w", e.EdgeCert, err)
		}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return read() }
	}
	return c, nil
}

// addEdge adds the path proxy. It keeps no state and checks no token: each
// service does, and the edge forwards what it was sent.
func (p *process) addEdge(e EdgeSettings, addr string) error {
	handler, err := p.edgeHandler(e)
	if err != nil {
		return err
	}
	p.part("edge", func(context.Context) (lifecycle.Service, error) {
		return p.listens(addr, handler)
	})
	return nil
}

func (p *process) edgeHandler(e EdgeSettings) (http.Handler, error) {
	proxies := map[string]http.Handler{}
	secure, err := e.tls()
	if err != nil {
		return nil, err
	}
	for name, text := range e.upstreams() {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, usage(fmt.Errorf("--edge-%s-url: %q is not an http URL", name, text))
		}
		proxies[name] = p.proxy(name, u, secure)
	}
	return join(emptyDoors(nil), func(service string) http.Handler { return proxies[service] })
}

func (p *process) proxy(service string, upstream *url.URL, secure *tls.Config) http.Handler {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil // the services are ours
	transport.TLSClientConfig = secure
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
