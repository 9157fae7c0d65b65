package telemetry_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/telemetry"
)

// scrape returns the lines of metrics that begin with prefix.
func scrape(t *testing.T, tel *telemetry.Telemetry, prefix string) (lines []string) {
	t.Helper()
	rec := httptest.NewRecorder()
	tel.MetricsHandler().ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(rec.Body.String()) {
		if strings.HasPrefix(line, prefix) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// Whatever strangers send, a label takes the values that it was made with, and
// one more.
func TestCaseG05_LabelsAreBounded(t *testing.T) {
	t.Parallel()
	tel := telemetry.Discard()
	i := tel.Instruments("trigger")
	c := i.Counter("requests", "Requests.", telemetry.Label{Key: "provider", Values: []string{"github"}}, telemetry.Label{Key: "outcome", Values: []string{"accepted", "rejected"}})
	if err := i.Err(); err != nil {
		t.Fatal(err)
	}
	for n := range 50_000 {
		c.Add(t.Context(), 1, fmt.Sprintf("/hooks/%d", n), fmt.Sprintf("run-%d", n))
	}
	c.Add(t.Context(), 2, "github", "accepted")
	c.Add(t.Context(), 1, "github")
	c.Add(t.Context(), -5, "github", "accepted")
	want := []string{
		`holdfast_trigger_requests_total{outcome="accepted",provider="github"} 2`,
		`holdfast_trigger_requests_total{outcome="other",provider="github"} 1`,
		`holdfast_trigger_requests_total{outcome="other",provider="other"} 50000`,
	}
	if diff := cmp.Diff(want, scrape(t, tel, "holdfast_trigger_requests")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	many := make([]string, 5000)
	for n := range many {
		many[n] = fmt.Sprint(n)
	}
	if none := i.Counter("runs", "Runs.", telemetry.Label{Key: "run", Values: many}); none != nil || i.Err() == nil {
		t.Errorf("a label of 5000 values is no error: %v", i.Err())
	}
}

func TestInstruments_NamesUnitsAndNewestGauge(t *testing.T) {
	t.Parallel()
	tel := telemetry.Discard()
	for _, value := range []float64{1, 2} { // two services of one name in a process
		i := tel.Instruments("tools")
		i.Histogram("wait", "s", "Waits.", []float64{1, 5}).Record(t.Context(), value)
		i.Gauge("oldest", "s", "Age.", func() (float64, bool) { return value, true })
		i.Gauge("unknown", "", "Nothing is known.", func() (float64, bool) { return 0, false })
		if err := i.Err(); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		`holdfast_tools_oldest_seconds 2`,
		`holdfast_tools_wait_seconds_bucket{le="1"} 1`, `holdfast_tools_wait_seconds_bucket{le="5"} 2`, `holdfast_tools_wait_seconds_bucket{le="+Inf"} 2`,
		`holdfast_tools_wait_seconds_sum 3`, `holdfast_tools_wait_seconds_count 2`,
	}
	if diff := cmp.Diff(want, scrape(t, tel, "holdfast_tools_")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var names []string
	for _, d := range tel.Described() {
		names = append(names, d.Kind+" "+d.Name)
	}
	if diff := cmp.Diff([]string{"gauge holdfast_tools_oldest_seconds", "gauge holdfast_tools_unknown", "histogram holdfast_tools_wait_seconds"}, names); diff != "" {
		t.Errorf("described (-want +got):\n%s", diff)
	}
	var none *telemetry.Telemetry
	none.Instruments("x").Counter("y", "Y.").Add(t.Context(), 1) // counts nothing and needs nobody
}
