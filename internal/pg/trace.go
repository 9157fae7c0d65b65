package pg

import (
	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/trace"
)

// NewTracer returns a tracer for Config that makes a span of every statement
// that runs within a recorded span; what runs by itself, a poll for instance,
// makes none. Arguments are left out: they hold what people and models wrote.
func NewTracer(p trace.TracerProvider) pgx.QueryTracer {
	return otelpgx.NewTracer(otelpgx.WithTracerProvider(p), otelpgx.WithTrimSQLInSpanName())
}
