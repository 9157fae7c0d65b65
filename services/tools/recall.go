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
	if d, ok := fromLedger(s, p, c, false); ok {
		return d
	}
	return Decision{Do: DoAttach}
}
