package tools

import (
	"context"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// EffectInDoubt is how a filter names doubts that nobody has settled.
const EffectInDoubt = "in_doubt"

// SearchDepth is how many effects one search for a text looks through, the
// doubts first and then the newest.
const SearchDepth = 10_000

// Ledger is what people read of the ledger beside single effects.
type Ledger interface {
	// Beyond returns the position of the last effect that a search for
	// f.Text looks through, nil when it looks through all there are.
	Beyond(ctx context.Context, f Filter) (*Position, error)
	// Tools lists the names that effects of the namespace have, at most 500.
	Tools(ctx context.Context, namespace string) ([]string, error)
	// Totals counts effects of the namespace.
	Totals(ctx context.Context, namespace string) (Totals, error)
	// Marks returns what else is known of effects, by their ids.
	Marks(ctx context.Context, effects []Effect) (map[string]Mark, error)
	// Sharers lists the calls of an effect, the oldest first.
	Sharers(ctx context.Context, namespace, effectID string, limit int) ([]Sharer, error)
	// Verdicts lists what was said about an effect in doubt, the oldest first.
	Verdicts(ctx context.Context, namespace, effectID string) ([]Verdicted, error)
	// Toll says what a stop would meet.
	Toll(ctx context.Context, namespace, scope, name string) (Toll, error)
}

// TotalsSpan is how far back Totals counts what has ended.
const TotalsSpan = 24 * time.Hour

// Totals counts effects of a namespace.
type Totals struct {
	InDoubt   int64 // now, and nobody has settled them
	UnderWay  int64 // now: begun, waiting for another attempt, or awaiting a result
	Held      int64 // now, by a stop
	Twice     int64 // ever: a late outcome says that it happened, see Mark
	Happened  int64 // begun in the last 24 hours
	Not       int64 // begun in the last 24 hours: failed, surely did not happen
	Prevented int64 // calls of the last 24 hours that another call's outcome answered
	Refused   int64 // calls of the last 24 hours that had a key in use for other arguments
}

// Mark is what a list shows beside an effect.
type Mark struct {
	// Twice says that an outcome came too late to count which may have
	// happened: the effect may have happened twice.
	Twice      bool
	Calls      int64
	YesBy      string // who or what allowed the call that opened it
	YesID      events.ApprovalID
	QuestionID events.ApprovalID // asks people about the doubt, still open
	RunName    string            // empty when the run is not there
}

// Sharer is a call that shares an effect.
type Sharer struct {
	CallID    events.CallID
	RunID     events.RunID
	Status    string // open or events.Call…
	Epoch     int64
	Opened    bool // the effect
	Replayed  bool // it was answered from the ledger
	YesBy     string
	YesID     events.ApprovalID
	RunName   string // empty when the run is not there
	RunStatus string
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Waits reports whether the call is still to be answered, or was told that the
// outcome is not known.
func (s Sharer) Waits() bool { return s.Status == CallOpen || s.Status == events.CallUnknown }

// Verdicted is a verdict on a doubt that was taken.
type Verdicted struct {
	Verdict string    `json:"verdict"`
	By      string    `json:"by"`
	Reason  string    `json:"comment,omitempty"`
	Applied bool      `json:"applied"` // false: it came too late
	At      time.Time `json:"at"`
}

// Toll is what a stop meets: how much goes on that it lets no write of leave.
type Toll struct {
	Runs     int64 // that have not ended
	UnderWay int64 // effects that have left, or may have, and are awaited
	Waiting  int64 // effects that wait for another attempt
}

// Search lists effects: those in doubt first, then the newest. Next is where to
// go on, nil at the end; a search for a text may go on behind fewer than
// f.Limit effects.
func (s *Service) Search(ctx context.Context, f Filter) (found []Effect, next *Position, err error) {
	limit := f.Limit
	f.Limit++
	if found, err = s.reader.Effects(ctx, f); err != nil {
		return nil, nil, err
	}
	if len(found) > limit {
		found = found[:limit]
		last := found[limit-1].Position()
		return found, &last, nil
	}
	if f.Text == "" {
		return found, nil, nil
	}
	next, err = s.reader.Beyond(ctx, f)
	return found, next, err
}

// Ledger returns what people read of the ledger.
func (s *Service) Ledger() Ledger { return s.reader }
