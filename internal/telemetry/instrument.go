package telemetry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Other is what a label says of a value that is not in its list.
const Other = "other"

// Label is a label of an instrument and every value that it may take: how many
// series there are is known before the first request. What is not in the list,
// a stranger's path for instance, is counted as Other.
type Label struct {
	Key    string
	Values []string
}

// Instrument describes one metric for the documentation.
type Instrument struct {
	Name   string // as Prometheus shows it
	Kind   string // counter, gauge or histogram
	Unit   string // "s", "" for a plain number
	Help   string
	Labels []Label
}

// Instruments makes the instruments of one service; their names begin with
// "holdfast_<service>_". Two of one name are the same, so that every replica in
// a process counts into one. Made by Telemetry.Instruments.
type Instruments struct {
	t      *Telemetry
	prefix string
	err    error
}

// Instruments returns what makes a service's instruments. A nil Telemetry
// records nothing.
func (t *Telemetry) Instruments(service string) *Instruments {
	if t == nil {
		t = Discard()
	}
	return &Instruments{t: t, prefix: "holdfast_" + service + "_"}
}

// Err joins what was wrong with the instruments that were made: a name or a
// label that is none. Such an instrument records nothing.
func (i *Instruments) Err() error { return i.err }

// Described lists the instruments that were made, by name.
func (t *Telemetry) Described() []Instrument {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := slices.Clone(t.described)
	slices.SortFunc(list, func(a, b Instrument) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// describe notes an instrument once.
func (i *Instruments) describe(name, kind, unit, help string, labels []Label) string {
	full := i.prefix + name
	shown := full
	if unit == "s" {
		shown += "_seconds"
	}
	if kind == "counter" {
		shown += "_total"
	}
	i.t.mu.Lock()
	defer i.t.mu.Unlock()
	if !slices.ContainsFunc(i.t.described, func(d Instrument) bool { return d.Name == shown }) {
		i.t.described = append(i.t.described, Instrument{Name: shown, Kind: kind, Unit: unit, Help: help, Labels: labels})
	}
	return full
}

func (i *Instruments) fail(name string, err error) {
	if err != nil {
		i.err = errors.Join(i.err, fmt.Errorf("metric %s%s: %w", i.prefix, name, err))
	}
}

// series are the ready-made label sets of an instrument. It is never written
// after it was made.
type series struct {
	labels []Label
	sets   map[string]metric.MeasurementOption
}

// maxSeries bounds the series of one instrument.
const maxSeries = 4000

func seriesOf(labels []Label) (series, error) {
	s := series{labels: labels, sets: map[string]metric.MeasurementOption{}}
	n := 1
	for _, l := range labels {
		n *= len(l.Values) + 1
	}
	if n > maxSeries {
		return s, fmt.Errorf("has %d series, at most %d are allowed", n, maxSeries)
	}
	var fill func(key string, attrs []attribute.KeyValue, rest []Label)
	fill = func(key string, attrs []attribute.KeyValue, rest []Label) {
		if len(rest) == 0 {
			s.sets[key] = metric.WithAttributeSet(attribute.NewSet(attrs...))
			return
		}
		for _, v := range append(slices.Clone(rest[0].Values), Other) {
			fill(key+v+"\x00", append(slices.Clone(attrs), attribute.String(rest[0].Key, v)), rest[1:])
		}
	}
	fill("", nil, labels)
	return s, nil
}

// of finds the set of some values, in the order of the labels.
func (s series) of(values []string) metric.MeasurementOption {
	var key strings.Builder
	for n, l := range s.labels {
		v := Other
		if n < len(values) && slices.Contains(l.Values, values[n]) {
			v = values[n]
		}
		key.WriteString(v + "\x00")
	}
	return s.sets[key.String()]
}

// Counter counts events. A nil one counts nothing.
type Counter struct {
	c      metric.Int64Counter
	series series
}

// Counter makes a counter. Its name is without "_total".
func (i *Instruments) Counter(name, help string, labels ...Label) *Counter {
	c, err := i.t.Meter.Int64Counter(i.describe(name, "counter", "", help, labels), metric.WithDescription(help))
	i.fail(name, err)
	sets, serr := seriesOf(labels)
	i.fail(name, serr)
	if err != nil || serr != nil {
		return nil
	}
	return &Counter{c, sets}
}

// Add counts n; values are of the labels, in their order.
func (c *Counter) Add(ctx context.Context, n int64, values ...string) {
	if c != nil && n > 0 {
		c.c.Add(ctx, n, c.series.of(values))
	}
}

// Histogram records how values are spread. A nil one records nothing.
type Histogram struct {
	h      metric.Float64Histogram
	series series
}

// Histogram makes a histogram; unit is "s" or "". bounds are the upper ends of
// its buckets.
func (i *Instruments) Histogram(name, unit, help string, bounds []float64, labels ...Label) *Histogram {
	h, err := i.t.Meter.Float64Histogram(i.describe(name, "histogram", unit, help, labels),
		metric.WithDescription(help), metric.WithUnit(unit), metric.WithExplicitBucketBoundaries(bounds...))
	i.fail(name, err)
	sets, serr := seriesOf(labels)
	i.fail(name, serr)
	if err != nil || serr != nil {
		return nil
	}
	return &Histogram{h, sets}
}

// Record notes one value.
func (h *Histogram) Record(ctx context.Context, value float64, values ...string) {
	if h != nil {
		h.h.Record(ctx, value, h.series.of(values))
	}
}

// Gauge makes a gauge whose value is asked for at each scrape; read must not
// block, and reports false while it knows none. The newest read of a name wins.
func (i *Instruments) Gauge(name, unit, help string, read func() (value float64, ok bool)) {
	full := i.describe(name, "gauge", unit, help, nil)
	i.t.mu.Lock()
	_, again := i.t.gauges[full]
	if i.t.gauges == nil {
		i.t.gauges = map[string]func() (float64, bool){}
	}
	i.t.gauges[full] = read
	i.t.mu.Unlock()
	if again {
		return
	}
	_, err := i.t.Meter.Float64ObservableGauge(full, metric.WithDescription(help), metric.WithUnit(unit),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			i.t.mu.Lock()
			newest := i.t.gauges[full]
			i.t.mu.Unlock()
			if v, ok := newest(); ok {
				o.Observe(v)
			}
			return nil
		}))
	i.fail(name, err)
}
