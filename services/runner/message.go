package runner

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// Message is what a person says to the model of a run.
type Message struct {
	Text string
	// Read says that a request with it was answered; then Turns is how many answers
	// came before it. The history keeps it there.
	Read  bool
	Turns int
	Said  bool // by a person, in a row of its own
}

// errEarly is a message that overtook the one before it.
var errEarly = errors.New("what was said before is not recorded yet")

// inTurn lets a message wait for the one that was taken before it: what is said in
// an order is read in that order. The earlier one is a debt of its door until it is
// recorded, so the wait ends.
func (s *State) inTurn(m *events.SayRun) error {
	if m == nil || m.After == "" || s.Causes.has(sayCause(m.After)) || s.Causes.has(sayCause(m.ID)) {
		return nil
	}
	return fault.RetryAfter(200*time.Millisecond, fmt.Errorf("message %s to run %s: %w", m.ID, s.RunID, errEarly))
}

func sayCause(id string) string { return "command:" + id }

// say keeps a message for the next request. What runs no model, and what is being
// ended, reads nothing any more.
func (d *decision) say(in Input) error {
	if d.state.Cancel != nil || d.state.Started.Ref.Kind != events.KindAgent {
		return d.late(in)
	}
	return d.add(events.FactMessage, *in.Say, true)
}

// Heard counts what people said to the run, and what of it no request has had.
func (s *State) Heard() (all, unread int) {
	for _, m := range s.Messages {
		if !m.Said {
			continue
		}
		if all++; !m.Read {
			unread++
		}
	}
	return all, unread
}

// said keeps what a person says.
func (s *State) said(m events.SayRun) {
	s.heard(m.Text)
	s.Messages[len(s.Messages)-1].Said = true
}

// heard keeps a message until a request takes it along. Whatever it says, there
// is more to do than to correct an answer, and a person may now want what was refused.
func (s *State) heard(text string) {
	s.Repairing, s.Refusals = false, nil
	s.Messages = append(s.Messages[:len(s.Messages):len(s.Messages)], Message{Text: text})
}

// wereRead fixes the place of the first n messages, which the answer that comes
// now has seen. The others came while it was written and stand behind it.
func (s *State) wereRead(n int) {
	for i := range s.Messages {
		if i >= n || s.Messages[i].Read {
			continue
		}
		m := append([]Message(nil), s.Messages...) // other copies of the state keep theirs
		m[i].Read, m[i].Turns = true, len(s.Turns)
		s.Messages = m
	}
}

// readable is how many messages the next request has. After a turn that the
// provider paused nothing may come but its continuation.
func (s *State) readable() int {
	n := len(s.Messages)
	if s.pausedAfter(len(s.Turns)) {
		for n > 0 && !s.Messages[n-1].Read {
			n--
		}
	}
	return n
}

// unread reports whether a message waits that the next request would have.
func (s *State) unread() bool {
	n := s.readable()
	return n > 0 && !s.Messages[n-1].Read
}

// concluded reports whether an answer is one that a run may end well with.
func concluded(a events.ModelAnswered) bool {
	switch a.StopReason {
	case StopEnd, StopSequence, StopTools:
		return len(a.Calls) == 0 && !blank(a)
	}
	return false
}

// say adds what a user says: to the message that is being made, if the last entry
// is one, because roles take turns.
func say(entries []Entry, text string) []Entry {
	if n := len(entries); n > 0 && entries[n-1].Assistant == "" {
		if entries[n-1].User != "" {
			text = entries[n-1].User + "\n\n" + text
		}
		entries[n-1].User = text
		return entries
	}
	return append(entries, Entry{User: text})
}
