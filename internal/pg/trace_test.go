package pg_test

import (
	"fmt"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgtest"
)

// A statement is a span of the work that it belongs to, without its arguments.
func TestTracer(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	pool, err := pg.Open(t.Context(), pg.Config{URL: pgtest.New(t).URL, Tracer: pg.NewTracer(provider)})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	const query = "SELECT length($1::text)"
	var n int
	if err := pool.QueryRow(t.Context(), query, "alone").Scan(&n); err != nil {
		t.Fatal(err)
	}
	if got := spans.Ended(); len(got) != 0 {
		t.Errorf("%d spans of statements that belong to nothing", len(got))
	}
	ctx, work := provider.Tracer("test").Start(t.Context(), "work")
	if err := pool.QueryRow(ctx, query, "hunter2").Scan(&n); err != nil {
		t.Fatal(err)
	}
	work.End()
	found := false
	for _, s := range spans.Ended() {
		if s.SpanContext().TraceID() != work.SpanContext().TraceID() {
			t.Errorf("span %s is of another trace", s.Name())
		}
		attributes := fmt.Sprint(s.Attributes(), s.Events())
		found = found || s.Parent().SpanID() == work.SpanContext().SpanID() && strings.Contains(attributes, query)
		if strings.Contains(attributes, "hunter2") {
			t.Errorf("span %s tells an argument: %s", s.Name(), attributes)
		}
	}
	if !found {
		t.Errorf("no span of the statement below the work's: %v", spans.Ended())
	}
}
