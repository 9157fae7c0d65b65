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
//
// The caller may append to what it gets and change the last entry; the others are
// shared with later requests.
func (s *State) Transcript(first string) ([]Entry, error) {
	c := s.beginning.of(s, first)
	if err := c.tell(s, len(s.Turns)); err != nil {
		return nil, err
	}
	s.beginning.keep(c)
	c.hear(len(s.Turns), true)
	return c.entries, nil
}

// history is the conversation with its first n answers and the results of their
// calls, without what comes behind them. It is the caller's own.
func (s *State) history(first string, n int) ([]Entry, error) {
	c := s.converse(first)
	err := c.tell(s, n)
	return c.entries, err
}

// conversation is one that is being written down: entries so far, the turn that
// comes next and the messages that are not in it yet.
type conversation struct {
	opening  opening
	entries  []Entry
	next     int // turn whose answer, or whose calls' results, come next
	answered bool
	messages []Message
	heard    int // messages that are in it, or that the summary stands for
	since    end // where the part that was known ends
	end      end
}

// opening is what stands before the first answer that a conversation has.
type opening struct {
	first, summary string
	from           int
}

// end is the place behind the last answer: what stands before it changes no more.
type end struct {
	entries, heard, turn int
	seq                  int64
	raw                  string
}

func (s *State) opening(first string) opening {
	o := opening{first: first, from: s.cut()}
	if s.Compacted != nil {
		o.summary = s.Compacted.Text
	}
	return o
}

func (s *State) converse(first string) *conversation {
	c := &conversation{opening: s.opening(first), messages: s.Messages[:s.readable()], next: s.cut()}
	c.entries = append(make([]Entry, 0, 2*max(len(s.Turns)-c.next, 0)+4), Entry{User: first}) // an answer and its results for each turn
	if s.Compacted != nil {
		c.entries = say(c.entries, s.Compacted.Text)
	}
	return c
}

// hear adds the messages that the answer of turn had, or all.
func (c *conversation) hear(turn int, all bool) {
	for ; c.heard < len(c.messages); c.heard++ {
		m := c.messages[c.heard]
		if !all && !(m.Read && m.Turns <= turn) {
			return
		}
		if !m.Read || m.Turns >= c.opening.from { // else the summary stands for it
			c.entries = say(c.entries, m.Text)
		}
	}
}

// tell goes on to the first n answers and the results of their calls.
func (c *conversation) tell(s *State, n int) error {
	for ; c.next < n; c.next, c.answered = c.next+1, false {
		turn := s.Turns[c.next]
		if !c.answered {
			c.hear(c.next, false)
			if unsaid(turn.Answer) {
				continue // providers refuse an empty message: the model is asked again instead
			}
			c.entries = append(c.entries, Entry{Assistant: turn.Answer.Raw})
			c.end = end{len(c.entries), c.heard, c.next, turn.Seq, turn.Answer.Raw}
		}
		if len(turn.Answer.Calls) == 0 {
			continue
		}
		results := make([]Result, 0, len(turn.Answer.Calls))
		for _, asked := range turn.Answer.Calls {
			called, ok := s.call(asked.CallID)
			if !ok || called.State != callDone || called.Done == nil {
				return fmt.Errorf("run %s: call %s has no result yet", s.RunID, asked.CallID)
			}
			results = append(results, called.result())
		}
		if left := turn.Answer.Left; left != "" {
			results[len(results)-1].Text += "\n\n" + left
		}
		c.entries = append(c.entries, Entry{Results: results})
	}
	return nil
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
