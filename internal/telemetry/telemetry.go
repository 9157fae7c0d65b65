// Package telemetry sets up logs, metrics and traces for a process and names
// the keys that they share.
//
// Nothing here is global: what needs a meter or a tracer is handed one.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	promexporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// scope names the instrumentation in exported metrics and spans.
const scope = "github.com/holdfast-run/holdfast"

// Config says who reports and where to.
type Config struct {
	Service string // "runner"; "holdfast" for several services in one process
	Version string
	// OTLPEndpoint is the URL of an OTLP/HTTP trace receiver
	// ("http://collector:4318"). Empty: no spans are recorded, and the trace
	// context of incoming messages is still passed on.
	OTLPEndpoint string
}

// Telemetry is what a process reports with. It is safe for concurrent use.
type Telemetry struct {
	Meter          metric.Meter
	MeterProvider  metric.MeterProvider
	Tracer         trace.Tracer
	TracerProvider trace.TracerProvider

	metrics  http.Handler
	shutdown []func(context.Context) error

	mu        sync.Mutex
	described []Instrument
	gauges    map[string]func() (float64, bool)
}

// Setup builds the providers. It does not connect: an absent collector costs
// spans, never work. Call Shutdown to send what is still buffered.
func Setup(_ context.Context, c Config) (*Telemetry, error) {
	res := resource.NewSchemaless(
		attribute.String("service.name", "holdfast-"+c.Service),
		attribute.String("service.version", c.Version),
	)
	if c.Service == "holdfast" {
		res = resource.NewSchemaless(attribute.String("service.name", c.Service), attribute.String("service.version", c.Version))
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	exporter, err := promexporter.New(promexporter.WithRegisterer(registry), promexporter.WithoutScopeInfo())
	if err != nil {
		return nil, fmt.Errorf("set up metrics: %w", err)
	}
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter), sdkmetric.WithResource(res))
	t := &Telemetry{
		Meter:          meters.Meter(scope),
		MeterProvider:  meters,
		TracerProvider: noop.NewTracerProvider(),
		metrics:        promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry}),
		shutdown:       []func(context.Context) error{meters.Shutdown},
	}
	if c.OTLPEndpoint != "" {
		// The context of New is only used to start the client, which for HTTP
		// does nothing.
		endpoint, err := url.Parse(c.OTLPEndpoint)
		if err != nil {
			return nil, fmt.Errorf("set up traces: %w", err)
		}
		if strings.Trim(endpoint.Path, "/") == "" {
			endpoint = endpoint.JoinPath("v1", "traces") // OTLP/HTTP's default path
		}
		spans, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(endpoint.String()))
		if err != nil {
			return nil, fmt.Errorf("set up traces to %s: %w", c.OTLPEndpoint, err)
		}
		provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(spans), sdktrace.WithResource(res))
		t.TracerProvider = provider
		t.shutdown = append(t.shutdown, provider.Shutdown)
	}
	t.Tracer = t.TracerProvider.Tracer(scope)
	return t, nil
}

// Discard returns telemetry that records nothing, for tests and tools.
func Discard() *Telemetry {
	t, err := Setup(context.Background(), Config{Service: "discard"})
	if err != nil {
		panic(err) // nothing in it can fail without an endpoint
	}
	return t
}

// MetricsHandler serves the metrics in Prometheus' text form.
func (t *Telemetry) MetricsHandler() http.Handler { return t.metrics }

// Shutdown sends buffered spans and ends the providers, before ctx does.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	var errs []error
	for _, f := range t.shutdown {
		errs = append(errs, f(ctx))
	}
	return errors.Join(errs...)
}

const traceParentKey = "traceparent"

// TraceParent returns the W3C traceparent of ctx's span, or "" without one.
func TraceParent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[traceParentKey]
}

// WithTraceParent returns ctx with the remote span that tp names, so that spans
// started from it join its trace. A malformed or empty tp changes nothing.
func WithTraceParent(ctx context.Context, tp string) context.Context {
	if tp == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{traceParentKey: tp})
}
