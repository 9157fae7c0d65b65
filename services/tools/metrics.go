package tools

import (
	"context"

	"github.com/holdfast-run/holdfast/internal/telemetry"
)

// Metrics counts what the service does. Its labels take a fixed number of values: no
// name of a tool or a host, since definitions come and go while a process runs; which
// one it was is in the ledger. A nil one counts nothing.
type Metrics struct {
	attempts *telemetry.Counter
	took     *telemetry.Histogram
	doubts   *telemetry.Counter
	renewals *telemetry.Counter
}

// NewMetrics makes the service's instruments.
func NewMetrics(t *telemetry.Telemetry) (*Metrics, error) {
	i := t.Instruments("tools")
	var verdicts []string
	for _, v := range []Verdict{Happened, Accepted, Refused, NotSent, Ambiguous} {
		verdicts = append(verdicts, v.String())
	}
	m := &Metrics{
		attempts: i.Counter("attempts", "Attempts at calls that this process recorded, by what each said: accepted is a result that comes later, ambiguous may have happened.",
			telemetry.Label{Key: "outcome", Values: verdicts}),
		took: i.Histogram("attempt", "s", "How long an attempt at a call took, whatever it came to.",
			[]float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300}),
		doubts: i.Counter("doubts", "Effects that this process marked unknown, by what is done about them; a lapsed lease of a program among them.",
			telemetry.Label{Key: "policy", Values: []string{DoubtAsk, DoubtFail, DoubtProbe, DoubtRetry}}),
		renewals: i.Counter("lease_renewals", "Intents that were committed again before the act, because their lease had run out or a stop had come."),
	}
	return m, i.Err()
}

// recorded counts an attempt whose outcome is committed.
func (m *Metrics) recorded(ctx context.Context, r Receipt, c Conclusion) {
	if m == nil {
		return
	}
	m.attempts.Add(ctx, 1, r.Verdict)
	m.took.Record(ctx, float64(r.DurationMs)/1000)
	if c.State == EffectUnknown {
		m.doubts.Add(ctx, 1, c.InDoubt)
	}
}

// doubted counts an effect that is marked unknown without an attempt's outcome.
func (m *Metrics) doubted(ctx context.Context, policy string) {
	if m != nil {
		m.doubts.Add(ctx, 1, policy)
	}
}

func (m *Metrics) renewed(ctx context.Context) {
	if m != nil {
		m.renewals.Add(ctx, 1)
	}
}
