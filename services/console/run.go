package console

import (
	"encoding/json"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Run is the current state of a run as the runner's view shows it, or of an
// accepted start that no runner has taken yet: Status queued, Seq 0.
type Run struct {
	ID          events.RunID
	Namespace   string
	Kind        string
	Name        string
	Digest      events.Digest
	Status      string
	Seq         int64
	Waiting     string
	Input       json.RawMessage
	Output      json.RawMessage
	Error       json.RawMessage
	Labels      map[string]string
	Trigger     json.RawMessage
	Principal   string
	ParentRunID events.RunID
	ParentItem  string
	ModelCalls  int64
	ToolCalls   int64
	Tokens      int64
	// What of the input was read from and written to the provider's cache; not in lists.
	CacheReadTokens, CacheWriteTokens int64
	// CostMicroUSD is what its answers cost by their models' prices, and
	// CostEstimatedMicroUSD the part of it whose usage was estimated.
	CostMicroUSD, CostEstimatedMicroUSD int64
	ClaimWorker                         string
	ClaimEpoch                          int64
	ClaimAt                             time.Time
	Attempts                            int
	AcceptedAt                          time.Time
	CreatedAt                           time.Time
	UpdatedAt                           time.Time
	EndedAt                             time.Time
	// Callback is nil when the run's end is posted nowhere. Not in lists.
	Callback *Callback
	// Budgets is how it stands to its ceilings. Not in lists.
	Budgets []RunBudget
	// Known is empty in lists.
	Known Known
	// Origin is what the run goes on from, Forks what goes on from it. Not in lists.
	Origin *Link
	Forks  []Link
	// Deadline is when it ends at the latest; zero without one. Not in lists.
	Deadline time.Time
	Priority string // one of events.Priorities; not in lists
	// Messages is what was said to its model. Not in lists.
	Messages Messages
	// Moves are the newest rows about moving it to another version, the newest first.
	// Not in lists.
	Moves []Move
	// Edits are the newest calls that people changed. Not in lists.
	Edits []Edit
	// Announced reports whether a start that no runner has taken was stored by
	// the bus. True for every run that a runner knows.
	Announced bool
}

// Taken reports whether a runner has recorded the run.
func (r Run) Taken() bool { return r.Seq > 0 }

// Link is the other run of a fork or a retry, and the newest row that they share.
type Link struct {
	RunID  events.RunID
	Retry  bool
	Row    int64
	Status string // of a fork
}

// Pending is one thing that a run waits for.
type Pending struct {
	Item   string
	Kind   string // model, tool, approval, doubt, question, signal, timer, child, started, or a newer runner's
	State  string
	Since  time.Time
	Detail string // tool name, child run id, or the signal as JSON
	Pool   string // shared budget without room for a model call
	// Probed says that it is not known whether the call happened and a lookup is
	// to say; the next one is at NextLook.
	Probed   bool
	NextLook time.Time
	// Awaited is until when the result may be posted of a call that the other
	// side has accepted.
	Awaited time.Time
	// ToolPool is the pool that a tool's call is sent to; empty when it is not
	// known. Taken says that a worker of it has had the call. Behind counts what
	// waits in the same queue and is older, for the oldest call of each kind
	// that nobody has taken, up to MaxBehind.
	ToolPool string
	Taken    bool
	Behind   int
	// Count is how many things of one kind the row stands for; zero means one.
	Count int
}

// MaxBehind is how far a queue is counted.
const MaxBehind = 1000

// Approval is an open question about a run.
type Approval struct {
	ID        events.ApprovalID
	Kind      string
	RunID     events.RunID
	Agent     string
	Tool      string
	Args      json.RawMessage
	Summary   string
	Question  *events.Question // of the kind question
	State     string
	CreatedAt time.Time
	ExpiresAt time.Time
}

// Worker is one process that does work, and when it last said so.
type Worker struct {
	Service   string
	Name      string
	Age       time.Duration // since its last heartbeat, by the database's clock
	StartedAt time.Time
	Pools     []string // of a tools worker; nil when it does not say
	// Skew is how far its own clock is ahead of the database's; negative: behind.
	Skew time.Duration
	// Release of its program; empty when it does not say.
	Release string
}

// WorkerAlive is how old a heartbeat may be before its worker counts as dead:
// what a takeover needs.
const WorkerAlive = 1500 * time.Millisecond

// Alive reports whether the worker's heart beats.
func (w Worker) Alive() bool { return w.Age <= WorkerAlive }
