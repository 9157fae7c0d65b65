package door_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/telemetry"
)

// A span holds the path of its request. The path of a callback is a secret.
func TestSpans_HoldNoSecretPath(t *testing.T) {
	t.Parallel()
	spans, tel := tracetest.NewSpanRecorder(), telemetry.Discard()
	provider := trace.NewTracerProvider(trace.WithSpanProcessor(spans))
	tel.TracerProvider = provider
	d, log := rig(t, func(c *door.Config) { c.Telemetry = tel })
	thanks := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	d.Raw("POST /v1/callbacks/{token}", door.Public, thanks)
	d.Raw("POST /hooks/{name}", door.Public, thanks)
	h := d.Handler()
	for _, path := range []string{"/v1/callbacks/s3cr3t", "/hooks/plain"} {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, path, nil))
		if rec.Code != http.StatusNoContent {
			t.Fatalf("%s: %d", path, rec.Code)
		}
	}
	ended := spans.Ended()
	said := log.String()
	for _, s := range ended {
		said += s.Name() + fmt.Sprint(s.Attributes())
	}
	if len(ended) != 1 || strings.Contains(said, "s3cr3t") || !strings.Contains(said, "/hooks/") {
		t.Errorf("%d spans: %s", len(ended), said)
	}
}
