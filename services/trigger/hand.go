package trigger

import (
	"context"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Hands keeps the hand of each schedule: when it fires next, and what became of
// its fires.
type Hands interface {
	// Hands lists the hands of a namespace, of all when it is empty, and the
	// database's time.
	Hands(ctx context.Context, namespace string) ([]Hand, time.Time, error)
	// SetHand stores next unless somebody changed the hand since have was read.
	// have is nil for a schedule without a hand, next for one that is gone.
	SetHand(ctx context.Context, have, next *Hand) error
	// Tick takes one hand that is due, that no other replica holds and that is not
	// among but, lets decide say what it fires, and commits that. fired is false
	// when none is due. An error of decide is returned and changes nothing.
	Tick(ctx context.Context, but []HandName, decide func(context.Context, Held) (Tock, error)) (fired bool, err error)
	// Take is Tick for one schedule, due or not: it waits until no other replica
	// holds the hand. ErrNotFound when the schedule has none.
	Take(ctx context.Context, name HandName, decide func(context.Context, Held) (Tock, error)) error
	// ReleaseFire takes one schedule of which fires wait and no run is open, lets
	// decide say what becomes of the one that waits longest, and commits that.
	ReleaseFire(ctx context.Context, but []HandName, decide func(context.Context, Held, PastFire) (Firing, error)) (released bool, err error)
	// NoteEnds marks the fires whose runs have ended.
	NoteEnds(ctx context.Context) error
	// UntilDue is how long until the next hand that is not among but is due; ok is
	// false when there is none. now is what the database's clock says.
	UntilDue(ctx context.Context, but []HandName) (wait time.Duration, ok bool, now time.Time, err error)
	// LastFires returns the newest fire of each schedule of a namespace that was
	// not skipped.
	LastFires(ctx context.Context, namespace string) (map[string]PastFire, error)
	// FireNow returns the fire that somebody asked for under a suffix, ErrNotFound
	// without one that was made.
	FireNow(ctx context.Context, name HandName, suffix string) (PastFire, error)
	// Made returns those of the keys of fires that were made or wait.
	Made(ctx context.Context, name HandName, suffix string, keys []string) (map[string]bool, error)
	// History lists the fires of a schedule, newest first, older than before
	// unless that is 0.
	History(ctx context.Context, name HandName, before int64, limit int) ([]PastFire, error)
	// Standing returns the open runs of a schedule and how many fires wait.
	Standing(ctx context.Context, name HandName) (open []events.RunID, buffered int, err error)
}

// HandName names a schedule.
type HandName struct{ Namespace, Name string }

// Hand is when one schedule fires next.
type Hand struct {
	Namespace, Name string
	Digest          events.Digest // of the version it was computed from
	Paused          bool          // by that version
	Pause           *Pause        // by an operator
	Next            *Fire         // nil: paused, or nothing in sight
	Missed          int64         // fires that were skipped because they were found too late
	Skipped         int64         // fires that the overlap policy let pass
	Fired           int64         // runs that the clock started
	Rest            time.Time     // what is due waits until then; zero: it does not
	Version         int64         // counts changes of the row
}

// Pause is an operator's pause of a schedule.
type Pause struct {
	At   time.Time
	By   string
	Note string
}

// Held is a hand that this replica alone holds, and what its schedule has under
// way.
type Held struct {
	Hand
	Now      time.Time // by the database's clock
	Open     []events.RunID
	Buffered int
}

func (h Held) standing() standing { return standing{open: h.Open, buffered: h.Buffered} }

// Tock is what becomes of a hand that was taken.
type Tock struct {
	Next  *Hand // nil: the schedule is gone
	Fires []Firing
	Note  *PauseNote
}

// PauseNote records a pause or the end of one.
type PauseNote struct {
	Paused bool
	By     string
	Note   string
}

// Firing is one fire and what becomes of it. A fire that was made before changes
// nothing.
type Firing struct {
	Fire           Fire
	Suffix         string // tells fires of one nominal time apart
	Origin         string
	Principal      string
	Digest         events.Digest // of the schedule's version
	State          string
	Reason, Detail string
	Skips          int64 // of a skipped one: how many fires it stands for
	RunID          events.RunID
	Delivery       *Delivery // with FireStarted
	Rejected       *Rejection
	Cancel         []events.RunID // runs that give way to it
	Supersede      bool           // those that wait give way to it
}

// Key is the dedupe key of the run that the firing starts.
func (f Firing) Key() string {
	switch {
	case f.Origin == OriginNow:
		return f.Suffix // one request, whatever the minute
	case f.Suffix != "":
		return f.Fire.Key() + "/" + f.Suffix
	}
	return f.Fire.Key()
}

// PastFire is a fire that happened, or did not.
type PastFire struct {
	ID             int64
	Nominal        string
	Fold           int
	Suffix         string
	Origin         string
	State          string
	Reason, Detail string
	Skips          int64
	Principal      string
	Digest         events.Digest // of the schedule's version
	DueAt          time.Time
	FiredAt        time.Time
	EndedAt        *time.Time   // when its run was seen to have ended
	RunID          events.RunID // empty when it could start nothing
}
