package runner

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// codeOutput is how a run fails whose final answer is not what it has to be.
const codeOutput = "output_schema"

// judgeOutput looks at a last answer by the agent's output, once. An answer that
// fits gives the run's output. For one that does not it adds a row, whose message
// the model reads next, and after the last repair the run's failure. judged says
// that it added something.
func (d *decision) judgeOutput(plan *Plan) (output json.RawMessage, judged bool, err error) {
	s := d.state
	if plan.Agent.Output == nil || len(s.Turns) == 0 {
		return nil, false, nil
	}
	turn := s.Turns[len(s.Turns)-1]
	if s.Judged == turn.Seq || s.openCalls() {
		return nil, false, nil
	}
	var problems []string
	switch {
	case s.Repairing && len(turn.Answer.Calls) > 0:
		problems = []string{"the answer asked for tools; none was called"}
	case concluded(turn.Answer) && !s.unread():
		if output, problems = plan.Agent.Output.Read(turn.Answer.Text); len(problems) == 0 {
			return output, false, nil
		}
	default:
		return nil, false, nil
	}
	body := events.OutputRejected{Answer: turn.Seq, Problems: problems}
	limit := int(plan.Agent.Output.Limit())
	if s.Repairs < limit {
		body.Repair = s.Repairs + 1
		body.Message = "Your final answer was not accepted:\n- " + strings.Join(problems, "\n- ") +
			"\n\nAnswer again with the corrected JSON value and nothing else. No tool can be called now."
	}
	if err := d.add(events.FactOutputRejected, body, false); err != nil || body.Repair > 0 {
		return nil, true, err
	}
	return nil, true, d.add(events.FactFailed, events.Ending{Error: &events.Problem{Code: codeOutput, Message: fmt.Sprintf(
		"the final answer does not fit the agent's output after %d repairs: %s; the answer is in row %d and begins: %q",
		limit, clip(strings.Join(problems, "; "), 1200), turn.Seq, clip(strings.TrimSpace(turn.Answer.Text), 300))}}, false)
}

// openCalls reports whether a call of the last answer has no result yet.
func (s *State) openCalls() bool {
	for _, c := range s.Calls {
		if c.State != callDone {
			return true
		}
	}
	return false
}

// outputRejected folds the row about an answer that was not accepted.
func (s *State) outputRejected(b events.OutputRejected) {
	s.Judged = b.Answer
	if b.Repair == 0 {
		return
	}
	s.heard(b.Message)
	s.Repairs, s.Repairing = b.Repair, true
}
