package lifecycle_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/lifecycle"
)

func get(t *testing.T, h *lifecycle.Health, path string) (int, lifecycle.Report) {
	t.Helper()
	rec := httptest.NewRecorder()
	h.Handler().ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	var r lifecycle.Report
	if err := json.Unmarshal(rec.Body.Bytes(), &r); err != nil {
		t.Fatalf("%s: body %q: %v", path, rec.Body, err)
	}
	return rec.Code, r
}

func TestHealth(t *testing.T) {
	t.Parallel()
	var h lifecycle.Health
	var down atomic.Bool
	down.Store(true)
	h.Add("bus", func(context.Context) error { return nil })
	h.Add("db", func(context.Context) error {
		if down.Load() {
			return errors.New("connection refused")
		}
		return nil
	})
	failing := lifecycle.Report{Status: "failing", Checks: map[string]string{"bus": "ok", "db": "connection refused"}}
	good := lifecycle.Report{Status: "ok", Checks: map[string]string{"bus": "ok", "db": "ok"}}
	expect := func(path string, wantCode int, want lifecycle.Report) {
		t.Helper()
		code, got := get(t, &h, path)
		if diff := cmp.Diff(want, got); code != wantCode || diff != "" {
			t.Errorf("GET %s: code %d, want %d; body (-want +got):\n%s", path, code, wantCode, diff)
		}
	}
	expect("/live", 200, lifecycle.Report{Status: "ok"})
	expect("/ready", 503, failing)
	expect("/started", 503, failing)
	down.Store(false)
	expect("/started", 200, good)
	expect("/ready", 200, good)
	down.Store(true)
	expect("/ready", 503, failing)
	expect("/started", 200, lifecycle.Report{Status: "ok"}) // started is for good
	down.Store(false)
	h.SetStopping()
	expect("/ready", 503, lifecycle.Report{Status: "stopping", Checks: good.Checks})
	expect("/live", 200, lifecycle.Report{Status: "ok"})
}

// A process whose later parts have not started has no checks that could fail,
// and must not be sent anything.
func TestHealth_Starting(t *testing.T) {
	t.Parallel()
	var h lifecycle.Health
	h.SetStarting()
	for _, path := range []string{"/ready", "/started"} {
		if code, got := get(t, &h, path); code != 503 || got.Status != "starting" {
			t.Errorf("GET %s: %d %+v", path, code, got)
		}
	}
	if code, _ := get(t, &h, "/live"); code != 200 {
		t.Errorf("GET /live: %d", code)
	}
	h.SetStarted()
	for _, path := range []string{"/ready", "/started"} {
		if code, _ := get(t, &h, path); code != 200 {
			t.Errorf("GET %s after the start: %d", path, code)
		}
	}
}
