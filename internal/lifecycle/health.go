package lifecycle

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// checkTimeout bounds one health check, below the usual probe timeout.
const checkTimeout = 2 * time.Second

// Health answers a process's probes. The zero value has no checks and is ready.
// It is safe for concurrent use.
type Health struct {
	mu       sync.Mutex
	checks   []check
	starting atomic.Bool
	stopping atomic.Bool
	started  atomic.Bool
}

type check struct {
	name string
	run  func(context.Context) error
}

// Add registers a check that /ready and /started run on every request, each
// with two seconds. It must be safe for concurrent use.
func (h *Health) Add(name string, run func(context.Context) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.checks = append(h.checks, check{name, run})
}

// SetStarting makes /ready and /started answer 503 until SetStarted: a process
// whose parts start one after the other has none of the later checks yet, and
// must not be taken for ready.
func (h *Health) SetStarting() { h.starting.Store(true) }

// SetStarted says that every part has started, so that the checks decide.
func (h *Health) SetStarted() { h.starting.Store(false) }

// SetStopping makes /ready answer 503 for good, so that no new work is sent.
func (h *Health) SetStopping() { h.stopping.Store(true) }

// Report is the JSON body of every health answer.
type Report struct {
	Status string            `json:"status"`           // ok, failing, starting, stopping
	Checks map[string]string `json:"checks,omitempty"` // name -> "ok" or the error
}

// Ready runs all checks at once and reports their outcome.
func (h *Health) Ready(ctx context.Context) (Report, bool) {
	h.mu.Lock()
	checks := h.checks
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	results := make([]string, len(checks))
	var wg sync.WaitGroup
	for i, c := range checks {
		wg.Go(func() {
			results[i] = "ok"
			if err := c.run(ctx); err != nil {
				results[i] = err.Error()
			}
		})
	}
	wg.Wait()
	report := Report{Status: "ok", Checks: make(map[string]string, len(checks))}
	for i, c := range checks {
		report.Checks[c.name] = results[i]
		if results[i] != "ok" {
			report.Status = "failing"
		}
	}
	switch {
	case h.stopping.Load():
		report.Status = "stopping"
	case h.starting.Load():
		report.Status = "starting"
	case report.Status == "ok":
		h.started.Store(true)
	}
	return report, report.Status == "ok"
}

// Handler serves GET /live (200 while the process serves at all), /ready (200
// when every check passes and the process is neither starting nor stopping) and
// /started (200 for good once it was ready). Anything else is 503 or 404.
func (h *Health) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /live", func(w http.ResponseWriter, _ *http.Request) {
		writeReport(w, http.StatusOK, Report{Status: "ok"})
	})
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, r *http.Request) {
		report, ok := h.Ready(r.Context())
		writeReport(w, status(ok), report)
	})
	mux.HandleFunc("GET /started", func(w http.ResponseWriter, r *http.Request) {
		if h.started.Load() {
			writeReport(w, http.StatusOK, Report{Status: "ok"})
			return
		}
		report, ok := h.Ready(r.Context())
		writeReport(w, status(ok), report)
	})
	return mux
}

func status(ok bool) int {
	if ok {
		return http.StatusOK
	}
	return http.StatusServiceUnavailable
}

func writeReport(w http.ResponseWriter, code int, r Report) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(r) // the prober has gone: nobody to tell
}
