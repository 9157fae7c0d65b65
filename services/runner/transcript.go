package runner

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Entry is one message of a conversation, in the order it is sent: an answer, or
// results, what a user says, or both.
type Entry struct {
	User      string   // the first message, or what came for the model later; after Results
	Assistant string   // an answer, byte for byte as the provider gave it
	Results   []Result // answers to every tool call of the entry before it
}

// Result is the one result of one tool call.
type Result struct {
	ProviderID string
	Text       string
	Error      bool
}

// Transcript rebuilds the conversation from the journal: append-only, each tool
// call with exactly one result in the next message, parallel calls answered
// together and in order. It fails when a call of a finished turn has no result. A
// summary stands for the answers that it replaces, behind the first message.
func (s *State) Transcript(first string) ([]Entry, error) {
	return s.history(first, len(s.Turns), true)
}

// history is the conversation with its first n answers and the results of their
// calls; with tail also the messages that come behind them.
func (s *State) history(first string, n int, tail bool) ([]Entry, error) {
	out := []Entry{{User: first}}
	from := s.cut()
	if s.Compacted != nil {
		out = say(out, s.Compacted.Text)
	}
	messages := s.Messages[:s.readable()]
	hear := func(turns int, all bool) {
		for len(messages) > 0 && (all || messages[0].Read && messages[0].Turns <= turns) {
			if m := messages[0]; !m.Read || m.Turns >= from { // else the summary stands for it
				out = say(out, m.Text)
			}
			messages = messages[1:]
		}
	}
	for i := from; i < n; i++ {
		turn := s.Turns[i]
		hear(i, false)
		if unsaid(turn.Answer) {
			continue // providers refuse an empty message: the model is asked again instead
		}
		out = append(out, Entry{Assistant: turn.Answer.Raw})
		if len(turn.Answer.Calls) == 0 {
			continue
		}
		var results []Result
		for _, c := range s.CallsInOrder(i) {
			if c.State != callDone || c.Done == nil {
				return nil, fmt.Errorf("run %s: call %s has no result yet", s.RunID, c.CallID)
			}
			results = append(results, c.result())
		}
		if left := turn.Answer.Left; left != "" {
			results[len(results)-1].Text += "\n\n" + left
		}
		out = append(out, Entry{Results: results})
	}
	if tail {
		hear(n, true)
	}
	return out, nil
}

func (c *Call) result() Result {
	if c.shown != nil {
		return *c.shown
	}
	r := Result{ProviderID: c.ProviderID, Error: c.Done.Status != events.CallSucceeded}
	switch {
	case c.Done.Status == events.CallSucceeded:
		r.Text = resultText(c.Done.Result)
	case c.Done.Status == events.CallUnknown:
		r.Text = "unknown: it is not known whether this call took effect. Do not repeat it; report it as unknown."
	case c.Done.Error != nil:
		r.Text = c.Done.Error.Code + ": " + c.Done.Error.Message
	default:
		r.Text = c.Done.Status
	}
	if c.Approved != nil && c.Approved.Told != "" {
		r.Text = c.Approved.Told + "\n\n" + r.Text
	}
	return r
}

// resultText shows a JSON string as its text and anything else as JSON. An
// empty result is said in words: providers refuse empty text.
func resultText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		text = string(raw)
	}
	if strings.TrimSpace(text) == "" {
		return "(empty result)"
	}
	return text
}
