package trigger

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Metrics counts what the service does. Its labels take a fixed number of
// values: no name that somebody outside gives, and none of webhooks and schedules
// either, since definitions come and go while a process runs; which one it was is
// in the delivery log and in the schedule's history. A nil one counts nothing.
type Metrics struct {
	requests   *telemetry.Counter
	starts     *telemetry.Counter
	fires      *telemetry.Counter
	lateness   *telemetry.Histogram
	batch      *telemetry.Histogram
	commit     *telemetry.Histogram
	backlog    atomic.Pointer[backlog]
	backlogNow func() time.Time
}

// backlog is what was seen of the starts that no runner has.
type backlog struct {
	waiting int64
	oldest  time.Duration
	at      time.Time
}

// Values of labels.
const (
	outcomeFailed   = "failed"      // on our side; nothing is said about the start
	outcomeRefused  = "unavailable" // for now: a part is away, a limit is reached
	outcomeCaughtUp = "caught_up"   // started, over a minute late
	noReason        = "none"
	unknownWebhook  = "unknown"
)

// backlogFor is how long a look at the backlog counts.
const (
	backlogEvery = 5 * time.Second
	backlogFor   = time.Minute
)

// NewMetrics makes the service's instruments.
func NewMetrics(t *telemetry.Telemetry) (*Metrics, error) {
	i := t.Instruments("trigger")
	outcomes := append(Outcomes(), outcomeRefused)
	requestReasons := []string{noReason, ReasonUnsigned, ReasonHandshake, ReasonFilter, CodeUnknownWebhook, CodeUnknownTarget, CodeSignature,
		CodeMediaType, CodeInvalidLabels, CodeInvalidSignal, CodeRateLimited, CodeInFlight, "request_timeout", "incomplete_body", "invalid_encoding"}
	for _, r := range slices.Sorted(maps.Values(reasons)) {
		requestReasons = appendNew(requestReasons, r)
	}
	m := &Metrics{
		requests: i.Counter("requests", "Requests at webhooks by the provider and by what became of them, as in the delivery log.",
			telemetry.Label{Key: "provider", Values: append(spec.Providers(), unknownWebhook)},
			telemetry.Label{Key: "outcome", Values: outcomes}, telemetry.Label{Key: "reason", Values: requestReasons}),
		starts: i.Counter("starts", "Starts that a webhook, the API or a message asked for. A list of events asks for several. Fires of schedules are counted by themselves.",
			telemetry.Label{Key: "source", Values: []string{SourceWebhook, SourceAPI, SourceEvent}},
			telemetry.Label{Key: "outcome", Values: []string{OutcomeAccepted, OutcomeDuplicate, OutcomeRejected, outcomeFailed}}),
		fires: i.Counter("fires", "Fires of schedules by what became of them, with skipped ones and why. One that was buffered and then started is in both.",
			telemetry.Label{Key: "origin", Values: []string{OriginClock, OriginNow, OriginBackfill}},
			telemetry.Label{Key: "outcome", Values: []string{FireStarted, outcomeCaughtUp, FireBuffered, FireSkipped, FireRejected}},
			telemetry.Label{Key: "reason", Values: []string{noReason, ReasonOverlap, ReasonBufferFull, ReasonSuperseded, ReasonMissed, ReasonPaused,
				ReasonDeleted, ReasonReturned, CodeUnknownTarget, CodeInvalidInput, CodeMapping}}),
		lateness: i.Histogram("fire_lateness", "s", "How long after its time a fire of the clock was made, catch-ups included.",
			[]float64{0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3600}),
		batch:      i.Histogram("commit_starts", "", "Starts that one statement committed.", []float64{1, 2, 4, 8, 16, 32, 64, 128, 256}),
		commit:     i.Histogram("commit", "s", "How long a statement that commits starts takes.", []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10}),
		backlogNow: time.Now,
	}
	i.Gauge("backlog", "", "Starts that are committed and that no runner has yet, of the whole database, every 5 s.", func() (float64, bool) {
		b, ok := m.seenBacklog()
		return float64(b.waiting), ok
	})
	i.Gauge("backlog_age", "s", "Age of the oldest start of the backlog.", func() (float64, bool) {
		b, ok := m.seenBacklog()
		return b.oldest.Seconds(), ok
	})
	return m, i.Err()
}

func appendNew(list []string, s string) []string {
	for _, have := range list {
		if have == s {
			return list
		}
	}
	return append(list, s)
}

// request counts a request at a webhook by its entry in the log.
func (m *Metrics) request(ctx context.Context, provider, outcome, reason string) {
	if m == nil {
		return
	}
	if reason == "" {
		reason = noReason
	}
	m.requests.Add(ctx, 1, provider, outcome, reason)
}

// start counts what became of one start.
func (m *Metrics) start(ctx context.Context, source string, a Accepted, err error) {
	if m == nil {
		return
	}
	outcome := OutcomeAccepted
	if _, refused := AsRefusal(err); refused {
		outcome = OutcomeRejected
	} else if err != nil {
		outcome = outcomeFailed
	} else if a.Repeat {
		outcome = OutcomeDuplicate
	}
	m.starts.Add(ctx, 1, source, outcome)
}

// Fired counts fires that were committed at now, by the database's clock. One
// that a lost race made before is none.
func (m *Metrics) Fired(ctx context.Context, now time.Time, fires ...Firing) {
	if m == nil {
		return
	}
	for _, f := range fires {
		outcome, reason := f.State, f.Reason
		if reason == "" {
			reason = noReason
		}
		if f.State == FireStarted && f.Origin == OriginClock && !now.IsZero() {
			late := now.Sub(f.Fire.At)
			m.lateness.Record(ctx, max(late.Seconds(), 0))
			if late > time.Minute {
				outcome = outcomeCaughtUp
			}
		}
		m.fires.Add(ctx, max(f.Skips, 1), f.Origin, outcome, reason)
	}
}

// Committed records a statement that committed n starts.
func (m *Metrics) Committed(ctx context.Context, n int, took time.Duration) {
	if m == nil {
		return
	}
	m.batch.Record(ctx, float64(n))
	m.commit.Record(ctx, took.Seconds())
}

func (m *Metrics) seenBacklog() (backlog, bool) {
	b := m.backlog.Load()
	if b == nil {
		return backlog{}, false
	}
	since := m.backlogNow().Sub(b.at)
	seen := *b
	if seen.waiting > 0 {
		seen.oldest += since
	}
	return seen, since < backlogFor
}

// watchBacklog looks at the backlog now and then until ctx ends.
func (s *Service) watchBacklog(ctx context.Context) {
	if s.metrics == nil {
		return
	}
	every := time.NewTicker(backlogEvery)
	defer every.Stop()
	for ctx.Err() == nil {
		look, cancel := context.WithTimeout(ctx, backlogEvery)
		waiting, oldest, err := s.store.Backlog(look)
		cancel()
		switch {
		case err == nil:
			s.metrics.backlog.Store(&backlog{waiting, oldest, s.metrics.backlogNow()})
		case ctx.Err() == nil:
			s.log.DebugContext(ctx, "backlog is not known", telemetry.KeyErr, err)
		}
		select {
		case <-ctx.Done():
		case <-every.C:
		}
	}
}
