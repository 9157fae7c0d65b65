package tools_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Attempts and doubts are counted by what became of them, and no name of a tool is a
// label.
func TestMetrics_AttemptsAndDoubts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.start()
	for args, status := range map[string]string{`{"n":1}`: events.CallSucceeded, `{"n":2}`: events.CallSucceeded, `{"mode":"500"}`: events.CallUnknown} {
		c := w.call("pay", args)
		w.send(c, "")
		w.answer(c.CallID, status)
	}
	w.idle()
	rec := httptest.NewRecorder()
	p.metrics.MetricsHandler().ServeHTTP(rec, httptest.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, "/metrics", nil))
	text := rec.Body.String()
	for _, want := range []string{
		`holdfast_tools_attempts_total{outcome="happened"} 2`, `holdfast_tools_attempts_total{outcome="ambiguous"} 1`,
		`holdfast_tools_doubts_total{policy="ask"} 1`, `holdfast_tools_attempt_seconds_count 3`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("the meter does not say %s", want)
		}
	}
	if strings.Contains(text, "pay") {
		t.Error("a tool's name is a label")
	}
}
