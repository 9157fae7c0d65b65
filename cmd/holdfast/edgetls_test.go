package main

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/certtest"
	"github.com/holdfast-run/holdfast/internal/telemetry"
)

// The edge reaches services that ask for a certificate, and none that it should not trust.
func TestEdge_SpeaksTLSToServices(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca, stranger := certtest.New(t), certtest.New(t)
	cert, key := ca.Issue(t, dir, "service")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	service := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	service.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool()}
	service.StartTLS()
	t.Cleanup(service.Close)
	url := strings.Replace(service.URL, "127.0.0.1", "localhost", 1)
	otherDir := t.TempDir()
	otherCert, otherKey := stranger.Issue(t, otherDir, "edge")
	for name, tc := range map[string]struct {
		e    EdgeSettings
		want int
	}{
		"both know each other": {EdgeSettings{EdgeCA: ca.File(t, dir), EdgeCert: cert, EdgeKey: key}, http.StatusTeapot},
		"the edge shows none":  {EdgeSettings{EdgeCA: ca.File(t, dir)}, http.StatusServiceUnavailable},
		"a stranger's edge":    {EdgeSettings{EdgeCA: ca.File(t, dir), EdgeCert: otherCert, EdgeKey: otherKey}, http.StatusServiceUnavailable},
		"a stranger's service": {EdgeSettings{EdgeCA: stranger.File(t, otherDir), EdgeCert: cert, EdgeKey: key}, http.StatusServiceUnavailable},
		"an authority unknown": {EdgeSettings{EdgeCert: cert, EdgeKey: key}, http.StatusServiceUnavailable},
	} {
		e := tc.e
		e.EdgeTriggerURL, e.EdgeToolsURL, e.EdgeApprovalsURL, e.EdgeConsoleURL = url, url, url, url
		p := &process{log: telemetry.NewLogger(t.Output(), "error", "text")}
		handler, err := p.edgeHandler(e)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/runs", nil))
		if w.Code != tc.want {
			t.Errorf("%s: %d, want %d", name, w.Code, tc.want)
		}
	}
}
