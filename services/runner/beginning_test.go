package runner

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// toldTwice is a conversation that must be the same with what the state remembers
// of it and without.
func toldTwice(t interface {
	Helper()
	Fatalf(string, ...any)
}, s *State, first string) ([]Entry, error) {
	t.Helper()
	entries, err := s.Transcript(first)
	afresh := s.Clone()
	afresh.beginning = &beginning{}
	want, wantErr := afresh.Transcript(first)
	if diff := cmp.Diff(want, entries); diff != "" || (err == nil) != (wantErr == nil) {
		t.Fatalf("what is remembered of the conversation is not what the journal says (-journal +remembered), %v and %v:\n%s", wantErr, err, diff)
	}
	return entries, err
}

func (s *State) with(raw string, seq int64) *State {
	c := s.Clone()
	c.answered(seq, events.ModelAnswered{Raw: raw, Text: raw})
	return c
}

// A decision that was given up leaves nothing behind: neither its answer in the
// copies that share its array, nor its conversation.
func TestBeginning_OfADecisionThatWasGivenUp(t *testing.T) {
	t.Parallel()
	s := NewState(testRun, "default")
	for i := range 5 {
		s = s.with(fmt.Sprint("answer ", i), int64(i+2))
	}
	lost := s.with("lost", 7)
	if _, err := toldTwice(t, lost, "go"); err != nil {
		t.Fatal(err)
	}
	kept := s.with("kept", 7).with("next", 8)
	entries, err := toldTwice(t, kept, "go")
	if err != nil {
		t.Fatal(err)
	}
	if got := entries[6].Assistant; got != "kept" || lost.Turns[5].Answer.Raw != "lost" {
		t.Errorf("the sixth answer is %q, and of the lost decision %q", got, lost.Turns[5].Answer.Raw)
	}
	if entries, err = toldTwice(t, s, "go"); err != nil || len(entries) != 6 {
		t.Errorf("%d entries, %v; want the first message and five answers", len(entries), err)
	}
	if entries, err = toldTwice(t, kept, "another first message"); err != nil || entries[0].User != "another first message" {
		t.Errorf("%+v, %v", entries, err)
	}
}

// Copies of a state are written to and read at once.
func TestBeginning_OfCopiesAtOnce(t *testing.T) {
	t.Parallel()
	s := NewState(testRun, "default")
	for i := range 40 {
		s = s.with(fmt.Sprint("answer ", i), int64(i+2))
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			c := s
			for i := range 20 {
				c = c.with(fmt.Sprint(g, " says ", i), int64(42+i))
				if entries, err := toldTwice(t, c, "go"); err != nil || len(entries) != 42+i || entries[41+i].Assistant != fmt.Sprint(g, " says ", i) {
					t.Errorf("copy %d: %d entries, %v", g, len(entries), err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// A fork that edits a result tells the model the new one, also where the
// conversation was told before.
func TestBeginning_OfAForkWithAnEditedResult(t *testing.T) {
	t.Parallel()
	s := NewState(testRun, "default")
	s.answered(2, events.ModelAnswered{Raw: "look", Calls: []events.AskedCall{{CallID: "c-1", Tool: "look", Route: events.RouteSend}}})
	if err := s.toolCompleted(3, events.ToolCompleted{CallID: "c-1", Status: events.CallSucceeded, Result: []byte(`"old"`)}); err != nil {
		t.Fatal(err)
	}
	s = s.with("and on", 4)
	if entries, err := toldTwice(t, s, "go"); err != nil || entries[2].Results[0].Text != "old" {
		t.Fatalf("%+v, %v", entries, err)
	}
	f := s.Clone()
	if err := f.forked(events.Forked{Edits: events.ForkEdits{Results: map[events.CallID]json.RawMessage{"c-1": []byte(`"new"`)}}}); err != nil {
		t.Fatal(err)
	}
	if entries, err := toldTwice(t, f, "go"); err != nil || entries[2].Results[0].Text != "new" {
		t.Errorf("%+v, %v", entries, err)
	}
	if entries, err := toldTwice(t, s, "go"); err != nil || entries[2].Results[0].Text != "old" {
		t.Errorf("the run that was forked: %+v, %v", entries, err)
	}
}
