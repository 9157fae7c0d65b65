package tools

import (
	"encoding/json"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Do names what a decision asks for.
type Do string

// What a decision may ask for.
const (
	DoReplay Do = "replay" // the call is answered: say it again
	DoAnswer Do = "answer" // answer without acting
	DoAttach Do = "attach" // another call acts; its outcome answers this one
	DoBegin  Do = "begin"  // commit an intent, then act
	DoDoubt  Do = "doubt"  // the owner is gone and may have acted: commit that
	DoProbe  Do = "probe"  // look whether it happened
	DoWait   Do = "wait"   // look again after Wait
	DoRest   Do = "rest"   // nothing to do: a row or a running handler drives it
	DoClose  Do = "close"  // end an intent that has not acted, and answer its calls
	DoReuse  Do = "reuse"  // the call id was used for another call: reject the message
)

// Decision says what to do about a call. Which fields are set depends on Do.
type Decision struct {
	Do   Do
	Wait time.Duration

	Answer Answer // DoAnswer and DoClose

	// DoBegin and DoDoubt are guarded by the claim that the decision saw.
	From     Claim
	Live     bool // From is an open intent, not what a failed effect left
	Takeover bool // From belongs to another process, which must be dead
	Doubted  bool // an earlier attempt may have happened
	InDoubt  string
	Waited   bool // for a callback that did not come

	Doubt *Effect // DoProbe: what is in doubt
}

// Answer is what a call is answered with.
type Answer struct {
	Status   string // events.Call…
	Result   json.RawMessage
	Error    *events.Problem
	InDoubt  string
	Epoch    int64
	EffectID string // when the call shares an effect's outcome
	Replayed bool
}

// Own tells a decision what this process knows about an attempt.
type Own int

// Knowledge about an attempt id.
const (
	OwnNothing Own = iota // another process's, or lost
	OwnRunning            // a handler of this process works on it
	OwnIdle               // no handler works on it and it surely has not acted
)

// Decide says what a CallTool message means in a state. It is pure. self is
// this process's worker name, own what it knows about an attempt id.
func Decide(s State, p Plan, c events.CallTool, self string, own func(attemptID string) Own) Decision {
	if s.Call != nil {
		if s.Call.Tool == "" { // taken back before it came
			return Decision{Do: DoReplay}
		}
		if s.Call.ArgsDigest != c.ArgsDigest || s.Call.Tool != c.Tool || s.Call.Namespace != c.Namespace {
			return Decision{Do: DoReuse}
		}
		if s.Call.Status != CallOpen {
			return Decision{Do: DoReplay}
		}
	}
	if p.Class == ClassRead {
		return decideRead(s, p, c, self, own)
	}
	return decideEffect(s, p, c, self, own)
}

// refuse says why a call that has not begun must not begin; ok is true when
// nothing speaks against it.
func refuse(p Plan, c events.CallTool) (a Answer, ok bool) {
	if p.Problem != nil {
		return Answer{Status: events.CallFailed, Error: p.Problem}, false
	}
	if p.Gated && c.Approval == nil {
		return Answer{Status: events.CallFailed, Error: problem(CodeApprovalMissing,
			"tool %s needs a person's approval and the call carries none; nothing was done", c.Tool)}, false
	}
	return Answer{}, true
}

func decideRead(s State, p Plan, c events.CallTool, self string, own func(string) Own) Decision {
	if a, ok := refuse(p, c); !ok {
		return Decision{Do: DoAnswer, Answer: a}
	}
	var claim Claim
	if s.Call != nil {
		claim = s.Call.Claim
	}
	if claim.AttemptID == "" {
		return beginWhenDue(s, claim)
	}
	if claim.Worker == self {
		if own(claim.AttemptID) == OwnRunning {
			return Decision{Do: DoRest}
		}
		return Decision{Do: DoBegin, From: claim}
	}
	if !s.ownerDead(claim) {
		return Decision{Do: DoWait, Wait: otherHoldsNak}
	}
	if p.retry().over(claim.Attempts, s.Now) {
		return Decision{Do: DoAnswer, Answer: Answer{Status: events.CallFailed, Epoch: claim.Epoch, Error: problem(CodeWorkerLost,
			"the worker was lost in each of %d attempts", claim.Attempts)}}
	}
	return Decision{Do: DoBegin, From: claim, Takeover: true}
}

func decideEffect(s State, p Plan, c events.CallTool, self string, own func(string) Own) Decision {
	if c.Rule == events.RuleRecall {
		return decideRecall(s, p, c)
	}
	e := s.Effect
	mine := e != nil && e.CallID == c.CallID
	if !(mine && (e.State == EffectIntent || e.Probing())) { // what has begun is not un-begun
		if a, ok := refuse(p, c); !ok {
			return Decision{Do: DoAnswer, Answer: a}
		}
	}
	if e == nil {
		return Decision{Do: DoBegin}
	}
	if d, ok := fromLedger(s, p, c, mine); ok {
		return d
	}
	if e.State == EffectFailed {
		// It surely did not happen, so the key is free for a new epoch.
		return Decision{Do: DoBegin, From: Claim{Epoch: e.Claim.Epoch, AttemptID: e.Claim.AttemptID}}
	}
	return decideIntent(s, p, mine, self, own)
}

// fromLedger answers a call from the outcome that its key has; ok is false when it
// has none, or surely did not happen.
func fromLedger(s State, p Plan, c events.CallTool, mine bool) (d Decision, ok bool) {
	e := s.Effect
	if a, ok := closed(*e, p.Key); !ok {
		return Decision{Do: DoAnswer, Answer: a}, true
	}
	if e.ArgsDigest != c.ArgsDigest {
		return Decision{Do: DoAnswer, Answer: Answer{Status: events.CallMismatch, Error: problem(CodeMismatch,
			"key %q was used with other arguments (effect %s is %s); nothing was done", p.Key, e.ID, e.State)}}, true
	}
	switch e.State {
	case EffectSucceeded:
		return Decision{Do: DoAnswer, Answer: Answer{Status: events.CallSucceeded, Result: e.Result, Epoch: e.Claim.Epoch, EffectID: e.ID, Replayed: true}}, true
	case EffectUnknown:
		if e.Probing() {
			return decideProbe(s, mine), true
		}
		return Decision{Do: DoAnswer, Answer: Answer{Status: events.CallUnknown, Error: e.Error, InDoubt: e.InDoubt, Epoch: e.Claim.Epoch, EffectID: e.ID, Replayed: !mine}}, true
	}
	return Decision{}, false
}

// decideIntent handles an effect that somebody acts on, acted on, or waits to
// act on again.
func decideIntent(s State, p Plan, mine bool, self string, own func(string) Own) Decision {
	claim := s.Effect.Claim
	lost := false // the owner may have acted and cannot tell
	awaited := s.Effect.Awaiting()
	switch {
	case awaited:
		d, over := decideAwaiting(s, mine)
		if !over {
			return d
		}
		lost = true
	case claim.AttemptID == "":
		if !mine {
			return Decision{Do: DoAttach}
		}
		if s.Effect.Held() {
			return Decision{Do: DoRest} // a sweep sends it again when the stop ends
		}
		d := beginWhenDue(s, claim)
		d.Doubted, d.Live = claim.Doubted, true
		return d
	case claim.Worker == self:
		switch own(claim.AttemptID) {
		case OwnRunning:
			if mine {
				return Decision{Do: DoRest}
			}
			return Decision{Do: DoAttach}
		case OwnIdle:
			return Decision{Do: DoBegin, From: claim, Live: true, Doubted: claim.Doubted}
		}
		lost = true
	case s.ownerDead(claim):
		lost = true
	}
	if !lost {
		if mine {
			return Decision{Do: DoWait, Wait: otherHoldsNak}
		}
		return Decision{Do: DoAttach}
	}
	takeover := claim.Worker != self && !awaited
	if p.Policy == DoubtRetry && !p.retry().over(claim.Attempts, s.Now) {
		return Decision{Do: DoBegin, From: claim, Live: true, Takeover: takeover, Doubted: true, Waited: awaited}
	}
	return Decision{Do: DoDoubt, From: claim, Takeover: takeover, InDoubt: p.openDoubt(), Waited: awaited}
}

// openDoubt is how a doubt is left when the policy has no more acts to try.
func openDoubt(policy string) string {
	switch policy {
	case DoubtFail, DoubtProbe:
		return policy
	}
	return DoubtAsk
}

// longestNak is the longest wait that may hold a message; a longer one is a row.
const longestNak = 5 * time.Second

func beginWhenDue(s State, claim Claim) Decision {
	wait := claim.NextAttempt.Sub(s.Now)
	switch {
	case wait <= 0:
		return Decision{Do: DoBegin, From: claim}
	case wait <= longestNak:
		return Decision{Do: DoWait, Wait: wait}
	}
	return Decision{Do: DoRest}
}
