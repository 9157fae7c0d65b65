package console

import (
	"context"
	"errors"
	"os"
	"sync/atomic"

	"github.com/holdfast-run/holdfast/internal/follow"
	"github.com/holdfast-run/holdfast/internal/telemetry"
)

// Streams that a process serves.
const (
	StreamRun    = "run"    // one run's events
	StreamEvents = "events" // everything of a namespace
	StreamPage   = "page"   // what a page of the console is told
)

// Metrics counts the streams that the process serves. A nil one counts nothing.
type Metrics struct {
	open *atomic.Int64
	cut  *telemetry.Counter
}

// watching is how many streams are open in this process; every console of it counts there.
var watching atomic.Int64

// NewMetrics makes the service's instruments.
func NewMetrics(t *telemetry.Telemetry) (*Metrics, error) {
	i := t.Instruments("console")
	m := &Metrics{
		open: &watching,
		cut: i.Counter("streams_cut", "Streams that this process ended because their reader did not keep up: slow took nothing for too long, behind had too much before it. It may resume where it was.",
			telemetry.Label{Key: "stream", Values: []string{StreamRun, StreamEvents, StreamPage}}, telemetry.Label{Key: "reason", Values: []string{"slow", "behind"}}),
	}
	i.Gauge("streams_open", "", "Streams of server-sent events that this process serves now.", func() (float64, bool) { return float64(m.open.Load()), true })
	return m, i.Err()
}

// Opened counts a stream until its end is told with what ended it.
func (s *Service) Opened(ctx context.Context, stream string) (ended func(err error)) {
	m := s.metrics
	if m == nil {
		return func(error) {}
	}
	m.open.Add(1)
	return func(err error) {
		m.open.Add(-1)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			m.cut.Add(ctx, 1, stream, "slow")
		case errors.Is(err, follow.ErrBehind):
			m.cut.Add(ctx, 1, stream, "behind")
		}
	}
}
