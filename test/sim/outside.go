package sim

import (
	"fmt"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

// outside is the other side of every tool: it counts what really happened.
type outside struct {
	happened map[string]int // tool and key → how often
}

func newOutside() *outside { return &outside{happened: map[string]int{}} }

func (o *outside) applied(key, tool string) int { return o.happened[tool+" "+key] }

// act is one request. The other side may be silent, refuse, or not be reached.
func (o *outside) act(w *World, j *job) tools.Outcome {
	c, p := j.call.c, j.call.plan
	what := 0
	if w.fault("the other side", oddsOutside) {
		what = 1 + w.c.any("does", 4)
	}
	w.onAct(j)
	done := what == 0 || what == 1
	id := c.Tool + " " + p.Key
	honours := p.Policy == tools.DoubtRetry // it knows the key, and does a repeat no second time
	if done && p.Class != tools.ClassRead && !(honours && o.happened[id] > 0) {
		o.happened[id]++
		w.onApplied(j, o.happened[id])
	}
	problem := func(code string) *events.Problem { return &events.Problem{Code: code, Message: code} }
	switch what {
	case 1:
		w.note(j, "(does it and says nothing)")
		return tools.Outcome{Verdict: tools.Ambiguous, Error: problem("timeout")}
	case 2:
		w.note(j, "(is silent)")
		return tools.Outcome{Verdict: tools.Ambiguous, Error: problem("timeout")}
	case 3:
		w.note(j, "(is not reached)")
		return tools.Outcome{Verdict: tools.NotSent, Error: problem("connection_refused")}
	case 4:
		w.note(j, "(refuses)")
		return tools.Outcome{Verdict: tools.Refused, Error: problem("refused")}
	}
	return tools.Outcome{Verdict: tools.Happened, Result: []byte(fmt.Sprintf(`{"done":%d}`, o.happened[id]))}
}
