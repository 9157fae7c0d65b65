package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/holdfast-run/holdfast/internal/telemetry"
)

func TestNewLogger(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		level, format string
		wantLines     int
		wantJSON      bool
	}{
		"debug shows all":               {"debug", "json", 2, true},
		"warn hides info":               {"warn", "json", 0, true},
		"an unknown level means info":   {"loud", "text", 1, false},
		"an unknown format means text":  {"info", "xml", 1, false},
		"upper case is the same format": {"INFO", "JSON", 1, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			log := telemetry.NewLogger(&out, tc.level, tc.format)
			log.Debug("detail")
			log.Info("fact", telemetry.KeyRunID, "7")
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if out.Len() == 0 {
				lines = nil
			}
			if len(lines) != tc.wantLines {
				t.Fatalf("%d lines, want %d:\n%s", len(lines), tc.wantLines, out.String())
			}
			for _, l := range lines {
				if json.Valid([]byte(l)) != tc.wantJSON {
					t.Errorf("line %s: JSON is %v, want %v", l, !tc.wantJSON, tc.wantJSON)
				}
			}
		})
	}
}

func TestSetup_ServesMetrics(t *testing.T) {
	t.Parallel()
	tel, err := telemetry.Setup(t.Context(), telemetry.Config{Service: "runner", Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	defer tel.Shutdown(context.WithoutCancel(t.Context()))
	c, err := tel.Meter.Int64Counter("holdfast_runner_commits", metric.WithDescription("commits"))
	if err != nil {
		t.Fatal(err)
	}
	c.Add(t.Context(), 3)
	rec := httptest.NewRecorder()
	tel.MetricsHandler().ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	for _, want := range []string{"holdfast_runner_commits_total 3\n", `service_name="holdfast-runner"`, "go_goroutines "} {
		if !strings.Contains(rec.Body.String(), want) {
			t.Errorf("no %q in:\n%s", want, rec.Body)
		}
	}
}

func TestTraceParent_TravelsAsText(t *testing.T) {
	t.Parallel()
	const tp = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	if got := telemetry.TraceParent(telemetry.WithTraceParent(t.Context(), tp)); got != tp {
		t.Errorf("round trip = %q, want %q", got, tp)
	}
	for _, bad := range []string{"", "nonsense", "00-0-0-00"} {
		if got := telemetry.TraceParent(telemetry.WithTraceParent(t.Context(), bad)); got != "" {
			t.Errorf("%q became %q", bad, got)
		}
	}
}

func TestSetup_SendsSpansThatJoinTheTrace(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/traces" {
			requests.Add(1)
		}
	}))
	defer collector.Close()
	tel, err := telemetry.Setup(t.Context(), telemetry.Config{Service: "runner", OTLPEndpoint: collector.URL})
	if err != nil {
		t.Fatal(err)
	}
	const id = "0af7651916cd43dd8448eb211c80319c"
	ctx := telemetry.WithTraceParent(t.Context(), "00-"+id+"-b7ad6b7169203331-01")
	ctx, span := tel.Tracer.Start(ctx, "step")
	if tp := telemetry.TraceParent(ctx); !strings.Contains(tp, id) || strings.Contains(tp, "b7ad6b7169203331") {
		t.Errorf("traceparent of the new span = %q, want the same trace and a new span", tp)
	}
	span.End()
	stop, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
	defer cancel()
	if err := tel.Shutdown(stop); err != nil {
		t.Fatal(err)
	}
	if requests.Load() == 0 {
		t.Error("the collector got no spans")
	}
}
