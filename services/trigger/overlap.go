package trigger

import (
	"fmt"
	"slices"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// What became of a fire.
const (
	FireStarted  = "started"
	FireBuffered = "buffered" // starts when the run before it has ended
	FireSkipped  = "skipped"
	FireRejected = "rejected" // could start nothing; the reason is the Refusal's code
)

// Reasons of skipped fires. They are stable: operators count by them.
const (
	ReasonOverlap    = "overlap"       // a run before had not ended
	ReasonBufferFull = "buffer_full"   // as many wait as may
	ReasonSuperseded = "superseded"    // waited, and a newer one took its place
	ReasonMissed     = "missed"        // found too late
	ReasonPaused     = "paused"        // the schedule was paused
	ReasonDeleted    = "deleted"       // the schedule is gone
	ReasonReturned   = "never_started" // its definition can no longer be read
)

// Where a fire comes from.
const (
	OriginClock    = "clock"
	OriginNow      = "now"
	OriginBackfill = "backfill"
)

// standing is what a schedule has under way when a fire is decided.
type standing struct {
	open     []events.RunID // runs that it started and that have not ended
	buffered int            // fires that wait for the end of one
}

// verdict is what the overlap policy makes of a fire.
type verdict struct {
	state          string
	reason, detail string
	cancel         []events.RunID
	supersede      bool // those that wait give way
}

// admit decides by an overlap policy. A run that has not ended counts whatever
// it waits for: a person, too.
func (s standing) admit(o spec.Overlap) verdict {
	if o.Policy == spec.OverlapAllow || len(s.open) == 0 && s.buffered == 0 {
		return verdict{state: FireStarted}
	}
	switch o.Policy {
	case spec.OverlapBufferOne:
		return s.buffer(1)
	case spec.OverlapBufferAll:
		if o.Cap == 0 {
			return s.buffer(spec.MaxBuffer)
		}
		return s.buffer(o.Cap)
	case spec.OverlapCancelOther:
		return verdict{state: FireBuffered, cancel: slices.Clone(s.open), supersede: true}
	}
	return verdict{state: FireSkipped, reason: ReasonOverlap, detail: s.busy()}
}

func (s standing) buffer(limit int) verdict {
	if s.buffered >= limit {
		return verdict{state: FireSkipped, reason: ReasonBufferFull, detail: fmt.Sprintf("%d wait already; %s", s.buffered, s.busy())}
	}
	return verdict{state: FireBuffered}
}

// busy says what is in the way.
func (s standing) busy() string {
	if len(s.open) == 0 {
		return "a fire before it has not started yet"
	}
	return fmt.Sprintf("run %s, which the schedule started before, has not ended", s.open[0])
}

// after is the standing once the fire with this verdict is in.
func (s standing) after(v verdict, run events.RunID) standing {
	switch v.state {
	case FireStarted:
		s.open = append(slices.Clone(s.open), run)
	case FireBuffered:
		if v.supersede {
			s.buffered = 0
		}
		s.buffered++
	}
	return s
}
