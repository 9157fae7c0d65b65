package approvals

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// Metrics counts what the service does. Its labels take a fixed number of values: who
// decided what is in the decisions. A nil one counts nothing.
type Metrics struct {
	asked   *telemetry.Counter
	decided *telemetry.Counter
	expired *telemetry.Counter
	notices *telemetry.Counter
	waiting atomic.Pointer[Waiting]
	now     func() time.Time
}

// Waiting is how many requests wait for a person, in the whole database, and for how
// long the oldest does; and how many have ended and no run has taken that yet.
type Waiting struct {
	Requests int64
	Oldest   time.Duration
	Untaken  int64
	Since    time.Duration // that the oldest of them has ended
	seen     time.Time
}

// How often the whole database is asked, and how long an answer counts.
const (
	waitingEvery = 15 * time.Second
	waitingFor   = time.Minute
)

// NewMetrics makes the service's instruments.
func NewMetrics(t *telemetry.Telemetry) (*Metrics, error) {
	i := t.Instruments("approvals")
	var outcomes []string
	for _, o := range []Outcome{Decided, Repeated, Lost, TooLate, Gone, Mismatch, WrongKind, Unfit, NotAllowed, NoComment, Counted} {
		outcomes = append(outcomes, string(o))
	}
	m := &Metrics{
		asked: i.Counter("requests", "Requests that this process opened, by what is asked.",
			telemetry.Label{Key: "kind", Values: []string{events.ApprovalAction, events.ApprovalDoubt, events.ApprovalQuestion}}),
		decided: i.Counter("decisions", "Attempts to decide at this process's doors, by what they came to: lost was decided before, expired and withdrawn came too late.",
			telemetry.Label{Key: "door", Values: []string{DoorAPI, DoorSlack, DoorLink}}, telemetry.Label{Key: "outcome", Values: outcomes}),
		expired: i.Counter("expired", "Requests that this process ended because nobody decided in time."),
		notices: i.Counter("notices", "Attempts to tell people, by the state of the notice after each: due is tried again.",
			telemetry.Label{Key: "state", Values: []string{NoticeDelivered, NoticeDue, NoticeFailed, NoticeUnknown, NoticeGone}}),
		now: time.Now,
	}
	seen := func(value func(Waiting) float64) func() (float64, bool) {
		return func() (float64, bool) {
			w := m.waiting.Load()
			if w == nil {
				return 0, false
			}
			return value(*w), m.now().Sub(w.seen) < waitingFor
		}
	}
	i.Gauge("waiting", "", "Requests that wait for a person, of the whole database, every 15 s.", seen(func(w Waiting) float64 { return float64(w.Requests) }))
	i.Gauge("waiting_age", "s", "Age of the oldest request that waits for a person; 0 when none does.", seen(func(w Waiting) float64 { return w.Oldest.Seconds() }))
	i.Gauge("untaken", "", "Decisions, and expiries, that their runs have not taken yet, of the whole database, every 15 s.", seen(func(w Waiting) float64 { return float64(w.Untaken) }))
	i.Gauge("untaken_age", "s", "How long ago the oldest of them was made; 0 when there is none. They are announced until they are taken: a high one says that no runner works.", seen(func(w Waiting) float64 { return w.Since.Seconds() }))
	return m, i.Err()
}

func (m *Metrics) opened(ctx context.Context, kind string) {
	if m != nil {
		m.asked.Add(ctx, 1, kind)
	}
}

func (m *Metrics) attempted(ctx context.Context, door string, o Outcome) {
	if m != nil {
		m.decided.Add(ctx, 1, door, string(o))
	}
}

func (m *Metrics) lapsed(ctx context.Context, n int) {
	if m != nil && n > 0 {
		m.expired.Add(ctx, int64(n))
	}
}

func (m *Metrics) told(ctx context.Context, state string) {
	if m != nil {
		m.notices.Add(ctx, 1, state)
	}
}

// watchWaiting looks now and then how many requests wait.
func (s *Service) watchWaiting(ctx context.Context) {
	if s.metrics == nil {
		return
	}
	every := time.NewTicker(waitingEvery)
	defer every.Stop()
	for ctx.Err() == nil {
		look, cancel := context.WithTimeout(ctx, waitingEvery)
		w, err := s.reader.Waiting(look)
		cancel()
		switch {
		case err == nil:
			w.seen = s.metrics.now()
			s.metrics.waiting.Store(&w)
		case ctx.Err() == nil:
			s.log.DebugContext(ctx, "how many requests wait is not known", telemetry.KeyErr, err)
		}
		select {
		case <-ctx.Done():
		case <-every.C:
		}
	}
}
