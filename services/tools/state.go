package tools

import (
	"encoding/json"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// States of an effect.
const (
	EffectIntent    = "intent"    // somebody acts, acted, or waits for the next attempt
	EffectSucceeded = "succeeded" // it happened
	EffectFailed    = "failed"    // it surely did not happen
	EffectUnknown   = "unknown"   // it may have happened
	EffectExpired   = "expired"   // a tombstone: the key is used up, what was done is forgotten
)

// CallOpen is the status of a call without an answer. The other statuses are
// events.Call….
const CallOpen = "open"

// What is done about an outcome that nobody knows.
const (
	DoubtRetry = "retry" // the other side honours the key: send it again
	DoubtAsk   = "ask"   // a person says
	DoubtFail  = "fail"  // the model is told that it is unknown
	DoubtProbe = "probe" // a declared lookup says; the model is told nothing meanwhile
)

// Claim says who may act, and what was tried so far.
type Claim struct {
	Epoch       int64
	AttemptID   string // empty: nobody acts; the next attempt is due at NextAttempt
	Worker      string
	LeaseUntil  time.Time
	Attempts    int
	Doubted     bool // an earlier attempt may have happened
	NextAttempt time.Time
}

// Call is one tool call as the ledger knows it.
type Call struct {
	ID          events.CallID
	RunID       events.RunID
	Namespace   string
	Tool        string
	ToolDigest  events.Digest
	Pool        string
	Args        json.RawMessage
	ArgsDigest  events.Digest
	MintedKey   string
	Key         string
	Approval    *events.Approved
	Rule        string // events.Rule…
	TraceParent string
	EffectID    string
	Acting      bool
	Status      string
	Epoch       int64
	Result      json.RawMessage
	Error       *events.Problem
	InDoubt     string
	Replayed    bool
	SettledBy   string
	AnsweredBy  string
	Claim       Claim // reads only
	UpdatedAt   time.Time
}

// Effect is what the outside world was asked to do under one key.
type Effect struct {
	ID         string
	Namespace  string
	Tool       string
	Key        string
	State      string
	CallID     events.CallID // the call that opened it
	RunID      events.RunID
	Args       json.RawMessage
	ArgsDigest events.Digest
	Claim      Claim
	InDoubt    string
	Result     json.RawMessage
	Error      *events.Problem
	SettledBy  string
	OnDoubt    string          // policy of a program's act; empty for tool calls
	HeldBy     string          // of an intent: the stop that it waits for
	ReplyUntil time.Time       // of an intent with an attempt: its result is awaited until then
	Damaged    string          // why the stored record cannot be understood
	ProbeSince time.Time       // when it came in doubt, with DoubtProbe
	Probes     int             // lookups since then that decided nothing
	Receipts   json.RawMessage // read by the door only
	CreatedAt  time.Time
	UpdatedAt  time.Time
	ActedAt    time.Time
}

// Held reports whether a stop keeps the effect from being tried.
func (e Effect) Held() bool { return e.State == EffectIntent && e.HeldBy != "" }

// Awaiting reports whether the other side has accepted it and is to post the
// result.
func (e Effect) Awaiting() bool {
	return e.State == EffectIntent && e.Claim.AttemptID != "" && !e.ReplyUntil.IsZero()
}

// Open reports whether the effect is in doubt and nobody has settled it.
func (e Effect) Open() bool { return e.State == EffectUnknown && e.SettledBy == "" }

// Probing reports whether the effect is in doubt and a lookup is to say whether
// it happened. Its calls are open and wait.
func (e Effect) Probing() bool { return e.Open() && e.InDoubt == DoubtProbe }

// State is everything a decision about one call looks at, read in one statement.
type State struct {
	Now    time.Time // the database's clock
	Call   *Call     // nil when the call was never seen
	Effect *Effect   // nil when the key was never used
	// Executes is the agent or flow that the call's run executes, as the runner has
	// it; empty when it has no such run.
	Executes events.Ref
	// Owner is the beat of whoever holds the claim; Self is this process's.
	Owner Beat
	Self  Beat
	// RunDeleted says that the call's run was deleted.
	RunDeleted bool
}

// Beat is a worker's heartbeat as the database sees it.
type Beat struct {
	Known    bool
	Age      time.Duration // since the last beat
	FreshFor time.Duration // since it was last late
}

// The freshness rules hang together: own freshness + beat interval must stay
// under the limit that judges others, else a stall of the database makes the
// living look dead.
const (
	deadAfter     = 1500 * time.Millisecond
	selfFresh     = 900 * time.Millisecond
	selfFreshFor  = 2 * time.Second
	EffectLease   = time.Second // an act starts within this after its intent
	otherHoldsNak = 500 * time.Millisecond
)

// ownerDead reports whether the claim may be taken from its owner. The
// statement that takes it checks the same again.
func (s State) ownerDead(c Claim) bool {
	if s.Now.Before(c.LeaseUntil) {
		return false
	}
	if s.Owner.Known && s.Owner.Age <= deadAfter {
		return false
	}
	return s.Self.Known && s.Self.Age < selfFresh && s.Self.FreshFor > selfFreshFor
}
