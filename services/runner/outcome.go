package runner

import (
	"fmt"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// How many answers in a row may miss in the same way before the run stops: more
// of the same costs money and leads nowhere.
const (
	maxBlank     = 3  // that say nothing and ask for nothing
	maxTruncated = 3  // whose calls were cut at the output limit
	maxUnusable  = 5  // none of whose calls could be made as it was written, or that people refused before
	maxPauses    = 20 // that the provider paused

	// maxCalls of one answer are made: what is open is copied and compared with each
	// result that comes in.
	maxCalls = 256
)

// blank reports whether a whole answer has nothing in it. Such an answer is
// kept in the journal and never sent back.
func blank(a events.ModelAnswered) bool {
	switch a.StopReason {
	case StopEnd, StopSequence, StopTools:
		return len(a.Calls) == 0 && strings.TrimSpace(a.Text) == ""
	}
	return false
}

// unusable reports whether none of an answer's calls could be made as written.
func unusable(a events.ModelAnswered) bool {
	for _, c := range a.Calls {
		if c.Problem == nil {
			return false
		}
		switch c.Problem.Code {
		case "unknown_tool", "malformed_arguments", "invalid_arguments", codeRejected:
		default:
			return false
		}
	}
	return len(a.Calls) > 0
}

// inARow counts the last answers that are all of a kind.
func (s *State) inARow(kind func(events.ModelAnswered) bool) (n int) {
	for n < len(s.Turns) && kind(s.Turns[len(s.Turns)-1-n].Answer) {
		n++
	}
	return n
}

func truncated(a events.ModelAnswered) bool { return a.StopReason == StopLength && len(a.Calls) > 0 }
func paused(a events.ModelAnswered) bool    { return a.StopReason == StopPause }

// goesOn reports whether the model is asked again after its last answer, once
// the calls of that have their results.
func (s *State) goesOn(last events.ModelAnswered) bool {
	switch last.StopReason {
	case StopEnd, StopSequence, StopTools:
		return len(last.Calls) > 0 || blank(last) && s.inARow(blank) < maxBlank
	case StopLength:
		return len(last.Calls) > 0
	case StopPause:
		return true
	case StopWindow:
		return s.Pressed == len(s.Turns) // a summary makes room
	}
	return false // refused, too long, or nobody knows
}

// stuck says why a run that owes a model call is not to make it; nil when it is.
func (s *State) stuck() *events.Problem {
	switch {
	case s.inARow(truncated) >= maxTruncated:
		return &events.Problem{Code: "max_tokens", Message: fmt.Sprintf(
			"%d answers in a row were cut at the output limit inside a tool call; raise maxTokens of the agent", maxTruncated)}
	case s.inARow(unusable) >= maxUnusable:
		last := s.Turns[len(s.Turns)-1].Answer.Calls[0]
		return &events.Problem{Code: "unusable_calls", Message: clip(fmt.Sprintf(
			"%d answers in a row asked for tools in a way that cannot be used, the last for %.80q: %s: %s", maxUnusable, last.Tool, last.Problem.Code, last.Problem.Message), 500)}
	case s.inARow(paused) >= maxPauses:
		return &events.Problem{Code: "paused_turns", Message: fmt.Sprintf("the provider paused %d answers in a row", maxPauses)}
	}
	return nil
}

// outcome is how a run fails with its last answer; nil when it does not.
func (s *State) outcome(last events.ModelAnswered) *events.Problem {
	switch {
	case blank(last):
		return &events.Problem{Code: "empty_answer", Message: fmt.Sprintf("the model ended %d times in a row without saying anything", s.inARow(blank))}
	case last.StopReason == StopLength:
		return &events.Problem{Code: "max_tokens", Message: "the last answer was cut at the output limit; raise maxTokens of the agent"}
	case last.StopReason == StopRefusal:
		msg := "the model refused to answer"
		if said := strings.TrimSpace(last.Text); said != "" {
			msg += ": " + clip(said, 300)
		}
		return &events.Problem{Code: "refusal", Message: msg}
	case last.StopReason == StopWindow:
		return s.overflow("the answer was cut where the window ends")
	}
	return nil
}

// overflow says that the conversation does not fit the model, and how large it
// is. It depends on the journal alone: the same run fails in the same words.
func (s *State) overflow(reason string) *events.Problem {
	bytes, largest, of := 0, 0, "the input"
	add := func(n int, what string) {
		if bytes += n; n > largest {
			largest, of = n, what
		}
	}
	add(len(s.Started.Input), of)
	if s.Compacted != nil {
		add(len(s.Compacted.Text), "a summary")
	}
	for _, t := range s.Turns[s.cut():] {
		add(len(t.Answer.Raw), "an answer")
		for _, c := range t.Answer.Calls {
			if call, _ := s.call(c.CallID); call != nil && call.Done != nil {
				add(len(call.Done.Result), fmt.Sprintf("a result of %.80s", c.Tool))
			}
		}
	}
	return &events.Problem{Code: CodeContextWindow, Message: clip(fmt.Sprintf(
		"the conversation no longer fits the model's context window: %d answers and %d bytes, the largest part %s of %d bytes (%s); let tools return less, or use a model with a larger window",
		len(s.Turns)-s.cut(), bytes, of, largest, reason), 900)}
}
