package runner

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// Metrics counts what the service does. Its labels take a fixed number of values:
// no name of an agent, a tool or a model, since definitions come and go while a
// process runs; which one it was is in the journal. A nil one counts nothing.
type Metrics struct {
	calls     *telemetry.Counter
	callTime  *telemetry.Histogram
	takeovers *telemetry.Counter
	fenced    *telemetry.Counter
	parked    *telemetry.Counter
	ends      *telemetry.Counter
	stalled   atomic.Pointer[stall]
	unasked   atomic.Pointer[stall]
	now       func() time.Time
}

// stall is what was seen of what has waited for longest.
type stall struct {
	age time.Duration
	at  time.Time
}

// How often the whole database is asked, and how long an answer counts.
const (
	stallEvery = 15 * time.Second
	stallFor   = time.Minute
)

// Values of labels.
const (
	codeDamaged     = "damaged"
	codeLostWorkers = "lost_workers"

	callAnswered = "answered"
	callFailed   = "failed"
	callGivenUp  = "given_up" // the process stops, or the call was interrupted
)

// NewMetrics makes the service's instruments.
func NewMetrics(t *telemetry.Telemetry) (*Metrics, error) {
	i := t.Instruments("runner")
	m := &Metrics{
		calls: i.Counter("model_calls", "Model calls that this process made, by what became of them.",
			telemetry.Label{Key: "outcome", Values: []string{callAnswered, callFailed, callGivenUp}}),
		callTime: i.Histogram("model_call", "s", "How long a model call that was answered took, its stream included.",
			[]float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200}),
		takeovers: i.Counter("takeovers", "Model calls that this process took over from a worker whose heart no longer beats."),
		fenced:    i.Counter("fenced", "Times that this process found its claim gone to another worker and wrote, sent and called nothing more."),
		parked: i.Counter("parked", "Runs that this process parked for a person (needs_attention), by the code of the reason.",
			telemetry.Label{Key: "code", Values: []string{codeLostWorkers, codeDamaged, "panic", "decode", "decide", "transcript", "outgoing"}}),
		ends: i.Counter("ends", "Runs that this process ended, by their status.",
			telemetry.Label{Key: "status", Values: []string{events.StatusCompleted, events.StatusFailed, events.StatusCancelled, events.StatusExpired}}),
		now: time.Now,
	}
	seen := func(at *atomic.Pointer[stall]) func() (float64, bool) {
		return func() (float64, bool) {
			s := at.Load()
			if s == nil {
				return 0, false
			}
			return s.age.Seconds(), m.now().Sub(s.at) < stallFor
		}
	}
	i.Gauge("unasked_age", "s", "Age of the oldest model call that no runner has taken, of the whole database, every 15 s; 0 when there is none.", seen(&m.unasked))
	i.Gauge("stalled", "s", "Time since the last progress of the running run that has made none for longest, of the whole database, every 15 s; 0 when none is running.", seen(&m.stalled))
	return m, i.Err()
}

// called counts a model call that began at since.
func (m *Metrics) called(ctx context.Context, since time.Time, err error) {
	if m == nil {
		return
	}
	switch {
	case err == nil:
		m.calls.Add(ctx, 1, callAnswered)
		m.callTime.Record(ctx, m.now().Sub(since).Seconds())
	case ctx.Err() != nil:
		m.calls.Add(context.WithoutCancel(ctx), 1, callGivenUp)
	default:
		m.calls.Add(ctx, 1, callFailed)
	}
}

// tookOver counts a claim that was taken from a dead worker.
func (m *Metrics) tookOver(ctx context.Context) {
	if m != nil {
		m.takeovers.Add(ctx, 1)
	}
}

// refused counts err if it says that this process is no longer the owner.
func (m *Metrics) refused(ctx context.Context, err error) {
	if m != nil && errors.Is(err, ErrFenced) {
		m.fenced.Add(ctx, 1)
	}
}

// committed counts what a commit made of a run: an end, or a wait for a person.
func (m *Metrics) committed(ctx context.Context, before, after *State) {
	if m == nil {
		return
	}
	if before.End == "" && after.End != "" {
		m.ends.Add(ctx, 1, after.End)
	}
	if before.Attention == nil && after.Attention != nil {
		m.parked.Add(ctx, 1, after.Attention.Code)
	}
}

// damaged counts a run that is parked because its journal gives no state.
func (m *Metrics) damaged(ctx context.Context) {
	if m != nil {
		m.parked.Add(ctx, 1, codeDamaged)
	}
}

// watchStalled looks now and then for the run that stands still for longest.
func (s *Service) watchStalled(ctx context.Context) {
	if s.metrics == nil {
		return
	}
	every := time.NewTicker(stallEvery)
	defer every.Stop()
	for ctx.Err() == nil {
		look, cancel := context.WithTimeout(ctx, stallEvery)
		age, unasked, err := s.store.Stalled(look)
		cancel()
		switch {
		case err == nil:
			s.metrics.stalled.Store(&stall{age, s.metrics.now()})
			s.metrics.unasked.Store(&stall{unasked, s.metrics.now()})
		case ctx.Err() == nil:
			s.log.DebugContext(ctx, "stalled runs are not known", telemetry.KeyErr, err)
		}
		select {
		case <-ctx.Done():
		case <-every.C:
		}
	}
}
