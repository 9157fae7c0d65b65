package runner

import (
	"slices"
	"sync"
	"sync/atomic"
)

// beginning keeps the conversation up to its last answer, so that a run's thousandth
// request costs what is new. It follows from the journal alone: every copy of a
// run's state shares it.
type beginning struct {
	mu      sync.Mutex
	opening opening
	end     end
	entries []Entry // never written again, only appended to, and never handed out
}

// of begins a conversation of s, with what is known of it.
func (b *beginning) of(s *State, first string) *conversation {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.entries) == 0 || b.opening != s.opening(first) || !b.end.in(s) {
		return s.converse(first)
	}
	entries := make([]Entry, len(b.entries), len(b.entries)+2*(len(s.Turns)-b.end.turn)+2)
	copy(entries, b.entries)
	return &conversation{
		opening: b.opening, entries: entries, next: b.end.turn, answered: true,
		messages: s.Messages[:s.readable()], heard: b.end.heard, since: b.end, end: b.end,
	}
}

// keep remembers c up to its last answer.
func (b *beginning) keep(c *conversation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.end == c.since {
		return
	}
	if b.end != c.since { // c began at its first message, or another one came first
		b.entries = nil
	}
	b.entries = append(b.entries, c.entries[len(b.entries):c.end.entries]...)
	b.opening, b.end = c.opening, c.end
}

// in reports whether s has the answer at e: then it has all that stands before it.
func (e end) in(s *State) bool {
	return e.turn < len(s.Turns) && s.Turns[e.turn].Seq == e.seq && s.Turns[e.turn].Answer.Raw == e.raw
}

// appendTurn is append for a list that copies of a state share: only the copy whose
// list ends where the array is written to writes behind it, others copy.
func (s *State) appendTurn(t Turn) {
	n := int64(len(s.Turns))
	if len(s.Turns) < cap(s.Turns) && s.written.CompareAndSwap(n, n+1) {
		s.Turns = append(s.Turns, t)
		return
	}
	s.Turns = append(slices.Clip(s.Turns), t)
	s.written = &atomic.Int64{}
	s.written.Store(n + 1)
}
