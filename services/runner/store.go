package runner

import (
	"context"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Loaded is a run as read: its state, its claim and the database's time.
type Loaded struct {
	State       *State
	Claim       Claim
	Now         time.Time
	CancelledAt time.Time // when the cancel was committed, zero without one
	Attempts    int       // takeovers since the last progress
}

// Claim names the worker that is making the owed model call.
type Claim struct {
	Worker string // empty: nobody
	Epoch  int64  // rises with every claim and every takeover
	Cause  string // the message whose redelivery may take over
}

// Held reports whether somebody has the claim.
func (c Claim) Held() bool { return c.Worker != "" }

// Commit is one guarded write of a run: the rows, and what follows from the
// state after them.
type Commit struct {
	Before *State
	After  *State
	Facts  []Fact
	// Guard, when Epoch is not zero, also demands that the claim is still this
	// one.
	Guard Claim
	// Claim is the claim after the commit: ClaimKeep leaves it, ClaimTake makes
	// it Worker's with a higher epoch, ClaimClear drops it.
	Claim ClaimChange
	// Unclaimed also demands that nobody has the claim.
	Unclaimed bool
	Worker    string
	Cause     string
	// CancelledAt is the moment that cancel timers count from.
	CancelledAt time.Time
	Settle      *Settlement
	Refused     *Reserved       // the shared budget that the run pauses for
	Alerts      []Alert         // of the run's own ceilings, each told once
	Notices     []events.Notice // what people are to be told, each once
	// Waits says that the commit is no progress: lost workers stay counted, so that
	// people see how often a parked run was tried. Its resume counts from none again.
	Waits bool
	// MaxTreeRuns bounds the runs below the root, if the commit starts some: it then
	// returns ErrTreeFull, and nothing is written. 0: nothing is counted.
	MaxTreeRuns int64
}

// ClaimChange is what a commit does to the claim.
type ClaimChange int

const (
	ClaimKeep ClaimChange = iota
	ClaimTake
	ClaimClear
)

// Store keeps runs. Every method reads or writes committed state; none caches
// beyond the call. All are safe for concurrent use.
type Store interface {
	// Load folds the run's rows on top of known (nil for none), reading only
	// newer ones. It returns ErrNoRun, and the time, when there is no row, ErrDeleted when there was one, ErrNewer when this
	// release does not understand them all, and a terminal *DamagedError when they
	// give no state.
	Load(ctx context.Context, id events.RunID, known *State) (Loaded, error)
	// Create inserts the run with its first rows. It returns ErrVersionConflict
	// when a row exists; epoch is set when the commit took the claim.
	Create(ctx context.Context, c Commit) (epoch int64, at time.Time, err error)
	// Commit appends rows under the version of Before and the Guard. It returns
	// ErrVersionConflict when neither applies; nothing is written then.
	Commit(ctx context.Context, c Commit) (epoch int64, at time.Time, err error)
	// ParkDamaged appends the row that parks a run whose journal gives no state, and
	// drops its claim. It returns ErrVersionConflict when the run moved, has ended
	// or is parked. tell is the notice of it; nil when nobody is told.
	ParkDamaged(ctx context.Context, id events.RunID, d *DamagedError, worker string, tell *events.Notice) (f Fact, namespace string, err error)
	// RefOf returns what a run executes, whatever its rows hold.
	RefOf(ctx context.Context, id events.RunID) (namespace string, ref events.Ref, err error)
	// RowsOf returns the rows of a cause from row from on, in order. It reads the run's
	// rows from there to the end.
	RowsOf(ctx context.Context, id events.RunID, cause string, from int64) ([]Fact, error)
	// Claim takes a free claim at row seq. It returns ErrVersionConflict when
	// the run moved or somebody has it.
	Claim(ctx context.Context, id events.RunID, seq int64, worker, cause string) (epoch int64, err error)
	// TakeOver moves the claim old to worker (or drops it when worker is empty)
	// if old's worker is dead by the database's clock and taker is fresh. It
	// returns ErrOwnerAlive otherwise.
	TakeOver(ctx context.Context, id events.RunID, old Claim, taker, worker, cause string) (epoch int64, attempts int, err error)
	// Stalled returns the time since the last progress of the running run that has
	// made none for longest, zero when none is running, and for how long the oldest
	// model call has waited that no runner has taken, zero when there is none.
	Stalled(ctx context.Context) (still, unasked time.Duration, err error)
	// Release drops a claim that is still this one.
	Release(ctx context.Context, id events.RunID, c Claim) error

	// Reserve books what one model call may use with the pools; a repeat for the
	// same run, row and epoch is free. While others wait for a pool, only a
	// run that was woken gets room in it.
	Reserve(ctx context.Context, r Reservation) (Reserved, error)
	// ReserveCalls books tool calls with pools that count them, as many as all of
	// them have room for; a repeat gets what the first got.
	ReserveCalls(ctx context.Context, r Reservation) (CallRoom, error)
	// Unreserve gives back a reservation whose call worker never made. One that
	// another has the claim for stays: both booked the same, and only one got the claim.
	Unreserve(ctx context.Context, r Reservation, worker string) error
	// Await queues a run at row seq for the pool that refused it; its message is
	// no longer needed then. It returns ErrVersionConflict when the run moved.
	Await(ctx context.Context, id events.RunID, seq int64, r Reserved) error
	// WakeWaits takes the runs that are to try again, in each pool at most limit
	// of the first; one that does not is taken again after 5 s.
	WakeWaits(ctx context.Context, limit int) ([]PoolWait, error)
	// RaisePool lifts a pool's ceiling to at least to, in its current window.
	RaisePool(ctx context.Context, namespace string, p Pool, to int64) error
	// PausedPools lists the shared budgets that runs are paused for, in order, behind
	// after.
	PausedPools(ctx context.Context, after PausedPool, limit int) ([]PausedPool, error)
	// WakePaused takes the first runs that are paused for p and have room in it, at
	// most limit; one that stays paused is taken again after 5 s. A pool whose
	// definition is gone has no Budget.
	WakePaused(ctx context.Context, namespace string, p Pool, limit int) ([]PoolPause, error)

	// DueTimers takes timers that are due; each is hidden for 30 s.
	DueTimers(ctx context.Context, limit int) (due []DueTimer, next time.Duration, err error)
	// DueNudges takes pending items that made no progress; each is hidden for
	// twice as long as before.
	DueNudges(ctx context.Context, limit int) ([]DueNudge, error)
	// PutBackTimers and PutBackNudges let what was taken and not published be taken
	// again after a second.
	PutBackTimers(ctx context.Context, taken []DueTimer) error
	PutBackNudges(ctx context.Context, taken []DueNudge) error
	// Reject keeps a message that no run can take.
	Reject(ctx context.Context, m events.Received, code, detail string) error

	Blobs
	Turns
	Laner
	Concurrent
	PastReader
	Trees
	Deleter
}

// DueTimer is a timer that fell due.
type DueTimer struct {
	RunID events.RunID
	Timer Timer
	Try   int
}

// DueNudge is a pending item to ask about again.
type DueNudge struct {
	RunID     events.RunID
	Namespace string
	Item      string
	Try       int
	Since     time.Time
}

// Reservation books with shared pools for one model call.
type Reservation struct {
	RunID     events.RunID
	Namespace string
	Seq       int64
	Epoch     int64
	Pools     []Pool
	Most      Amounts
}

// Reserved is the outcome of a reservation.
type Reserved struct {
	OK bool
	// Refused names the pool without room. Full says that its settled use alone
	// leaves none, so that only a raise helps; else others' reservations are in
	// the way and will be settled soon.
	Refused string
	Full    bool
	Fail    bool // the pool ends who it has no room for, when Full
	Reason  string
	Window  string // of the pool
	Amount  int64  // that found no room
	Unit    string // of the amount
	// Until is when the pool's next window begins; zero without one.
	Until time.Time
}

// Settlement replaces a reservation by what the call really used.
type Settlement struct {
	Reservation
	Used Amounts
}
