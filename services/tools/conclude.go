package tools

import (
	"encoding/json"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Verdict is what an attempt says about the outside world.
type Verdict int

// Verdicts. The zero value is the careful one.
const (
	Ambiguous Verdict = iota // it may have happened
	Happened                 // the other side confirmed it
	Refused                  // the other side refused it for good; the model is told
	NotSent                  // it surely did not happen and may be tried again
	Accepted                 // the other side has it and posts the result later
)

// Outcome is what a Kind reports about one attempt.
type Outcome struct {
	Verdict Verdict
	// Result is what the model reads when it happened: any JSON value.
	Result json.RawMessage
	// Whole is the value that Result shows a part of; nil when Result is it.
	// Declared is the other side's own schema of it. Both may be absent.
	Whole    json.RawMessage
	Declared *spec.Schema
	// Error is what the model reads when it did not, or when nobody knows.
	Error *events.Problem
	// Artifacts are kept when it happened. Their ids are ArtifactID's.
	Artifacts []Artifact
	// RetryAfter is the other side's wish; zero for none.
	RetryAfter time.Duration
	// Unasked says, with NotSent, that we chose to ask nobody, as while a circuit
	// is open: it counts as no attempt, and RetryAfter is when to come back.
	Unasked bool
	// Receipt is kept with the attempt: HTTP status, the other side's request
	// id. It never holds a secret.
	Receipt Receipt
}

// Receipt is the trace of one attempt.
type Receipt struct {
	Kind          string    `json:"kind"`
	Status        int       `json:"status,omitempty"` // HTTP
	RequestID     string    `json:"request_id,omitempty"`
	RequestDigest string    `json:"request_digest,omitempty"` // of what was sent, secrets left out
	ContentType   string    `json:"content_type,omitempty"`
	Bytes         int64     `json:"bytes,omitempty"` // of the response, as far as it was read
	StartedAt     time.Time `json:"started_at"`
	DurationMs    int64     `json:"duration_ms"`
	Verdict       string    `json:"verdict"`
	Callback      bool      `json:"callback,omitempty"` // of a result that was posted later
	Probe         string    `json:"probe,omitempty"`    // a lookup's: what it decided; the rest is about the lookup
	Code          string    `json:"code,omitempty"`     // of the problem
	Error         string    `json:"error,omitempty"`
}

// String names the verdict in receipts.
func (v Verdict) String() string {
	switch v {
	case Happened:
		return "happened"
	case Refused:
		return "refused"
	case NotSent:
		return "not_sent"
	case Accepted:
		return "accepted"
	}
	return "ambiguous"
}

// Conclusion is what the ledger records about an attempt.
type Conclusion struct {
	// State is the effect's: EffectSucceeded, EffectFailed or EffectUnknown;
	// EffectIntent keeps it open for another attempt after Wait. EffectUnknown
	// with DoubtProbe answers nobody and is looked up after Wait.
	State   string
	InDoubt string
	Doubted bool
	// Awaits keeps EffectIntent open for a result that is posted within Wait.
	Awaits bool
	// Unasked keeps EffectIntent open, with as many attempts as before.
	Unasked bool
	Wait    time.Duration
	Error   *events.Problem
}

// Postpone says what follows when nobody was asked. Only the plan's age can end
// it: the attempts are left to those that ask. It is pure.
func Postpone(p Plan, claim Claim, why *events.Problem, wait time.Duration, now time.Time) Conclusion {
	claim.Attempts--
	c := Conclude(NotSent, p, claim, why, wait, now)
	c.Unasked = c.State == EffectIntent
	return c
}

// Conclude says what an attempt's verdict means. It is pure.
//
//	verdict     read            retry, idempotent      ask, fail, probe
//	Happened    succeeded       succeeded              succeeded
//	Refused     failed          failed; unknown when   failed
//	                            an earlier attempt
//	                            may have happened
//	NotSent     again, at last  again, at last failed  again, at last
//	            failed          (or unknown, as above) failed
//	Ambiguous   again, at last  again with the same    unknown
//	            failed          key, at last unknown
//	Accepted    -               waits for the callback, then as Ambiguous
//
// "again" waits in a row and holds no slot; "at last" is when the plan's Retry is
// over at now, by the database's clock.
func Conclude(v Verdict, p Plan, claim Claim, failure *events.Problem, hint time.Duration, now time.Time) Conclusion {
	again := Conclusion{State: EffectIntent, Doubted: claim.Doubted, Wait: p.retry().wait(claim.Attempts, hint), Error: failure}
	over := p.retry().over(claim.Attempts, now)
	unknown := Conclusion{State: EffectUnknown, InDoubt: p.openDoubt(), Doubted: true, Wait: p.firstLook(), Error: failure}
	failed := Conclusion{State: EffectFailed, Error: failure}
	switch {
	case v == Happened:
		return Conclusion{State: EffectSucceeded}
	case v == Accepted && p.ReplyWithin > 0:
		return Conclusion{State: EffectIntent, Doubted: claim.Doubted, Awaits: true, Wait: p.ReplyWithin}
	case p.Class == ClassRead && (v == Refused || over):
		return failed
	case p.Class == ClassRead:
		return again
	case v == Refused && claim.Doubted:
		return unknown // the refusal is about this attempt, not about the earlier one
	case v == Refused:
		return failed
	case v == NotSent && !over:
		return again
	case v == NotSent && claim.Doubted:
		return unknown
	case v == NotSent:
		return failed
	case p.Policy == DoubtRetry && !over:
		again.Doubted = true
		return again
	}
	return unknown
}
