package tools

import "github.com/holdfast-run/holdfast/pkg/events"

// decideRecall answers a call that stands for another one under that one's key. It
// never begins an act, so it needs no yes: what the ledger has is the answer, and
// where it has nothing, nothing happened.
func decideRecall(s State, p Plan, c events.CallTool) Decision {
	e := s.Effect
	if p.Problem != nil {
		return Decision{Do: DoAnswer, Answer: Answer{Status: events.CallFailed, Error: p.Problem}}
	}
	if e == nil || e.State == EffectFailed {
		return Decision{Do: DoAnswer, Answer: Answer{Status: events.CallFailed, Error: problem(events.CodeNothingToRecall,
			"the run that this one comes from began this call, and it did not happen; nothing was done now. Call it again if it is to be made")}}
	}
	if a, ok := closed(*e, p.Key); !ok {
		return Decision{Do: DoAnswer, Answer: a}
	}
	if e.ArgsDigest != c.ArgsDigest {
		return Decision{Do: DoAnswer, Answer: Answer{Status: events.CallMismatch, Error: problem(CodeMismatch,
			"key %q was used with other arguments (effect %s is %s); nothing was done", p.Key, e.ID, e.State)}}
	}
	switch e.State {
	case EffectSucceeded:
		return Decision{Do: DoAnswer, Answer: Answer{Status: events.CallSucceeded, Result: e.Result, Epoch: e.Claim.Epoch, EffectID: e.ID, Replayed: true}}
	case EffectUnknown:
		if e.Probing() {
			return decideProbe(s, false)
		}
		return Decision{Do: DoAnswer, Answer: Answer{Status: events.CallUnknown, Error: e.Error, InDoubt: e.InDoubt, Epoch: e.Claim.Epoch, EffectID: e.ID, Replayed: true}}
	}
	return Decision{Do: DoAttach}
}
