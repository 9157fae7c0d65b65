package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/lifecycle"
)

func TestReady(t *testing.T) {
	t.Parallel()
	health := func(set func(*lifecycle.Health)) http.Handler {
		var h lifecycle.Health
		set(&h)
		return h.Handler()
	}
	fine := func(context.Context) error { return nil }
	for name, tc := range map[string]struct {
		handler  http.Handler
		wantCode int
		want     []string
	}{
		"all checks pass": {
			handler:  health(func(h *lifecycle.Health) { h.Add("nats", fine) }),
			wantCode: exitOK, want: []string{"ready"},
		},
		"one check fails": {
			handler: health(func(h *lifecycle.Health) {
				h.Add("nats", fine)
				h.Add("runner-database", func(context.Context) error { return errors.New("connection refused") })
			}),
			wantCode: exitUnavailable, want: []string{"not ready: runner-database: connection refused\n"},
		},
		"it is stopping": {
			handler:  health(func(h *lifecycle.Health) { h.Add("nats", fine); h.SetStopping() }),
			wantCode: exitUnavailable, want: []string{"not ready: stopping"},
		},
		"another server": {
			handler:  http.NotFoundHandler(),
			wantCode: exitUnavailable, want: []string{"answered 404", "--health-listen"},
		},
		"a redirect is no answer": {
			handler:  http.RedirectHandler("/live", http.StatusFound),
			wantCode: exitUnavailable, want: []string{"answered 302"},
		},
		"it hangs": {
			handler:  http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }),
			wantCode: exitUnavailable, want: []string{"did not answer in time"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(tc.handler)
			t.Cleanup(s.Close)
			args := []string{"ready", s.URL}
			if name == "it hangs" {
				args = append(args, "--timeout", "200ms")
			}
			text, code := output(t, nil, args...)
			if code != tc.wantCode {
				t.Errorf("exit %d, want %d\n%s", code, tc.wantCode, text)
			}
			for _, want := range tc.want {
				if !strings.Contains(text, want) {
					t.Errorf("output %q does not say %q", text, want)
				}
			}
		})
	}
}

func TestReady_NobodyThere(t *testing.T) {
	t.Parallel()
	began := time.Now()
	text, code := output(t, nil, "ready", "http://"+free(t))
	if code != exitUnavailable || !strings.Contains(text, "connection refused") {
		t.Errorf("exit %d: %s", code, text)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %s", took)
	}
	if text, code := output(t, nil, "ready", "8711"); code != exitUsage || !strings.Contains(text, "http://127.0.0.1:8711") {
		t.Errorf("a port alone: exit %d, want %d: %s", code, exitUsage, text)
	}
}
