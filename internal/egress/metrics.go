package egress

import (
	"context"

	"github.com/holdfast-run/holdfast/internal/telemetry"
)

// Metrics counts what is not sent. A nil one counts nothing.
type Metrics struct {
	instruments *telemetry.Instruments
	opened      *telemetry.Counter
	kept        *telemetry.Counter
}

// Why a request was not sent.
const (
	refusedAddress = "address"
	refusedCircuit = "circuit"
)

// NewMetrics makes the instruments.
func NewMetrics(t *telemetry.Telemetry) (*Metrics, error) {
	i := t.Instruments("egress")
	m := &Metrics{
		instruments: i,
		opened:      i.Counter("circuits_opened", "Times that a host failed so often in a row that nothing was sent to it for a while."),
		kept: i.Counter("refused", "Requests that were not sent, because the address is not allowed or the host's circuit is open.",
			telemetry.Label{Key: "reason", Values: []string{refusedAddress, refusedCircuit}}),
	}
	m.watch(nil)
	return m, i.Err()
}

// watch shows how many circuits of b are open.
func (m *Metrics) watch(b *Breaker) {
	if m == nil {
		return
	}
	m.instruments.Gauge("circuits_open", "", "Hosts that this process sends nothing to now.", func() (float64, bool) {
		if b == nil {
			return 0, false
		}
		return float64(b.opened()), true
	})
}

func (m *Metrics) circuitOpened(ctx context.Context) {
	if m != nil {
		m.opened.Add(ctx, 1)
	}
}

func (m *Metrics) refused(ctx context.Context, reason string) {
	if m != nil {
		m.kept.Add(ctx, 1, reason)
	}
}
