package tools

import (
	"context"
	"encoding/json"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Store keeps calls and effects. Every method is one transaction and may be
// repeated after a lost reply: the guards are the claim that the caller saw and
// the attempt id that only it knows.
type Store interface {
	// Load reads all that a decision about c looks at. key is the key in force.
	Load(ctx context.Context, c events.CallTool, key, worker string) (State, error)
	// RunFacts reads what approval conditions know about a run; nil when the
	// runner has no such run. No new answer of the model changes it while one of
	// the run's calls is open.
	RunFacts(ctx context.Context, run events.RunID) (*spec.RunFacts, error)
	// Answer records an answer for a call that does not act. It returns the
	// call as it stands, and false when the state that the answer was decided
	// on has changed.
	Answer(ctx context.Context, c Call, a Answer) (Call, bool, error)
	// Attach records a call whose effect another call acts on, or a lookup is to
	// decide. False when the effect is no longer open.
	Attach(ctx context.Context, c Call, effectID string) (bool, error)
	// Begin commits an intent.
	Begin(ctx context.Context, b Begin) (Began, error)
	// Doubt marks an intent unknown and answers its calls, unless a lookup is to
	// say what happened. False when the claim has changed or its owner lives.
	Doubt(ctx context.Context, d Doubt) ([]Call, bool, error)
	// Close ends an open intent that surely has not acted: the call gets the
	// answer, every other call of the effect the same error as failed. False
	// when the claim has changed.
	Close(ctx context.Context, c Close) ([]Call, bool, error)
	// Holds reports whether the attempt still owns its claim.
	Holds(ctx context.Context, a Attempt) (bool, error)
	// Standing returns the oldest standing stop that forbids a write of a tool
	// in a run, nil when none does. What Begin commits looks by itself.
	Standing(ctx context.Context, namespace, tool string, run events.RunID) (*Stop, error)
	// Finish records an attempt's outcome and returns the calls that it
	// answers. False when a newer epoch owns the claim: the receipt is kept as
	// late. ErrUnstorable when Postgres refuses the values themselves.
	Finish(ctx context.Context, f Finish) ([]Call, bool, error)
	// Answered returns the call and, when it opened an effect, every other
	// answered call of that effect.
	Answered(ctx context.Context, id events.CallID) ([]Call, error)
	// Due takes up to limit calls whose next attempt nobody has begun, and
	// hides them from other sweeps for a while. Effects are among them that a
	// stop held which has ended.
	Due(ctx context.Context, limit int) ([]Call, error)
	Probes
	Turns
}

// Attempt names one attempt at a call.
type Attempt struct {
	CallID   events.CallID
	EffectID string // empty for a read
	ID       string
	Epoch    int64
}

// Begin asks for an intent.
type Begin struct {
	Call      Call
	Read      bool
	EffectID  string
	AttemptID string
	Worker    string
	Lease     time.Duration
	From      Claim
	Takeover  bool
	Doubted   bool
	Reply     Ticket
	// Bind, when the call is gated, is what the yes must be bound to.
	Gated bool
	Bind  events.Digest
}

// Gate is what the database says about a gated call's yes.
type Gate string

// Answers of the gate.
const (
	GateOpen     Gate = "open"
	GateMissing  Gate = "missing"  // nobody approved this call
	GateMismatch Gate = "mismatch" // the yes is for something else
	GateExpired  Gate = "expired"  // the yes is no longer valid
)

// Began is the result of a Begin.
type Began struct {
	Gate Gate
	Lost bool // the claim has changed, or the call was answered meanwhile
	// Held names the stop that the effect waits for; no intent is committed.
	Held  string
	Epoch int64
	// Waited is how long Begin waited for its turn at the database before it sent
	// anything: the lease began no earlier.
	Waited time.Duration
}

// Doubt asks to give an intent up whose owner may have acted.
type Doubt struct {
	Call     Call
	EffectID string
	From     Claim
	Takeover bool
	Worker   string
	InDoubt  string
	LookIn   time.Duration // with DoubtProbe
	Error    *events.Problem
}

// Close asks to end an intent that has not acted.
type Close struct {
	Call     Call
	EffectID string
	From     Claim
	Answer   Answer
}

// Finish records what an attempt came to.
type Finish struct {
	Attempt
	Worker     string
	Conclusion Conclusion
	Result     json.RawMessage
	Receipt    Receipt
	Acted      bool
	// Artifacts are kept in the same transaction.
	Artifacts []Artifact
}

// Controls takes what people and runs decide about calls.
type Controls interface {
	// Settle applies a verdict on a doubt, once per id, and returns every call
	// of the effect as it stands.
	Settle(ctx context.Context, s Settle) (Settled, error)
	// Revoke takes a call back unless its act has begun, once per id. It
	// returns the call as it stands.
	Revoke(ctx context.Context, id string, c events.ControlTool, namespace, traceParent string) (Call, error)
	// Reject keeps a message that can never be handled.
	Reject(ctx context.Context, m events.Received, code string, err error) error
}

// Settle is a verdict on a doubt.
type Settle struct {
	ID       string // cause: recorded once
	CallID   events.CallID
	RunID    events.RunID
	EffectID string // when the effect is named instead of a call
	Verdict  string // events.Happened, NotHappened or GiveUp
	Epoch    int64  // of the question; 0 for any
	Result   json.RawMessage
	By       string
	Reason   string
	Look     *Look // the lookup that says so; its receipt is kept
	// Messages, when set, makes the messages that follow from the verdict; they
	// are kept in the same transaction and sent until they have landed.
	Messages func(Settled) ([]events.Message, error)
}

// Settled is what a verdict came to.
type Settled struct {
	Applied bool // now, or by an earlier message of the same id
	Known   bool // the id was taken before
	Effect  *Effect
	Calls   []Call // every call of the effect, as it stands
}

// Filter narrows a list of effects. Empty fields do not narrow.
type Filter struct {
	Namespace string // required
	State     string // Effect…; EffectHeld, EffectAwaiting and EffectInDoubt too
	Tool      string
	RunID     events.RunID
	Key       string    // the whole key
	Text      string    // in key, arguments, result or error; see SearchDepth
	From, To  time.Time // begun at or after, before
	Twice     bool      // only what may have happened twice
	Settled   bool      // leave out what is in doubt
	HeldBy    string    // the stop that holds it
	Limit     int
	After     *Position
}

// Position is a place in a list: doubts first, then by age, newest first.
type Position struct {
	Doubt     bool      `json:"d"`
	CreatedAt time.Time `json:"t"`
	ID        string    `json:"i"`
}

// Position is where the effect stands in a list.
func (e Effect) Position() Position {
	return Position{Doubt: e.Open(), CreatedAt: e.CreatedAt, ID: e.ID}
}

// Reader shows the ledger.
type Reader interface {
	Effect(ctx context.Context, namespace, id string) (Effect, error) // ErrNotFound
	Effects(ctx context.Context, f Filter) ([]Effect, error)
	Artifacts
	Ledger
}

// Definitions finds tools by the digest that a run has pinned; ErrNoDefinition.
type Definitions interface {
	Tool(ctx context.Context, namespace string, d events.Digest) (*spec.Tool, error)
	// Asking is what a version of an agent or flow says about asking people.
	Asking(ctx context.Context, namespace string, ref events.Ref) (spec.Asking, error)
}

// Publisher sends messages and waits until the stream has stored them.
type Publisher interface {
	Publish(ctx context.Context, m events.Message) error
}

// Heart is this process's heartbeat.
type Heart interface {
	Fresh() bool
	WaitFresh(ctx context.Context) error
}
