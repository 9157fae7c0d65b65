package runner

import (
	"fmt"
	"slices"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Compacting is a summary that the next model call asks for.
type Compacting struct {
	events.CompactionStarted
	Turns int // answers that it replaces, with those of summaries before
}

// Compacted is what stands for the first answers of a run in its requests.
type Compacted struct {
	Seq   int64 // row of the summary
	Turns int   // answers that it replaces
	Text  string
	by    Claimed // under which it was made
}

// cut is how many answers no request has any more.
func (s *State) cut() int {
	if s.Compacted == nil {
		return 0
	}
	return s.Compacted.Turns
}

// unsaid reports whether an answer stands in the journal and in no request.
func unsaid(a events.ModelAnswered) bool { return blank(a) || overflowed(a) }

// overflowed reports whether an answer broke off because the window was full.
func overflowed(a events.ModelAnswered) bool { return a.StopReason == StopWindow }

// pausedAfter reports whether the history of the first n answers ends with one that
// the provider paused: nothing may come between it and its continuation.
func (s *State) pausedAfter(n int) bool {
	for n > s.cut() {
		n--
		if !unsaid(s.Turns[n].Answer) {
			return paused(s.Turns[n].Answer)
		}
	}
	return false
}

// cutBefore is the largest number of answers up to n that a summary may replace.
func (s *State) cutBefore(n int) int {
	for n > s.cut() && s.pausedAfter(n) {
		n--
	}
	return n
}

// turnsUpTo is how many answers there are up to a row that is one.
func (s *State) turnsUpTo(row int64) (int, error) {
	i := slices.IndexFunc(s.Turns, func(t Turn) bool { return t.Seq == row })
	if i < 0 {
		return 0, fmt.Errorf("row %d is no answer", row)
	}
	return i + 1, nil
}

func (s *State) compactionStarted(b events.CompactionStarted) error {
	n, err := s.turnsUpTo(b.UpTo)
	if err != nil {
		return err
	}
	s.Compacting, s.Pressed = &Compacting{CompactionStarted: b, Turns: n}, len(s.Turns)
	return nil
}

func (s *State) contextCompacted(seq int64, b events.ContextCompacted) error {
	n, err := s.turnsUpTo(b.UpTo)
	if err != nil {
		return err
	}
	s.ModelCalls++
	s.Failures = 0
	s.spent(b.Usage, b.CostMicroUSD)
	text := summaryHead + b.Summary
	if b.Restated != "" {
		text += "\n\n" + b.Restated
	}
	s.Compacted, s.Compacting = &Compacted{Seq: seq, Turns: n, Text: text, by: Claimed{Worker: b.Worker, Epoch: b.Epoch}}, nil
	return nil
}

// briefBytes is how much of a result a request for a summary has that did not fit
// with whole ones.
const briefBytes = 2000

// entries are what the next request says.
func (s *State) entries(first string) ([]Entry, error) {
	if s.Compacting != nil {
		return s.summaryEntries(first)
	}
	return s.Transcript(first)
}

// summaryEntries are the conversation that is to be summarized: what no summary
// stands for yet, up to where the cut is to be.
func (s *State) summaryEntries(first string) ([]Entry, error) {
	out, err := s.history(first, s.Compacting.Turns)
	if err != nil {
		return nil, err
	}
	if s.Compacting.Brief {
		for i := range out {
			for k := range out[i].Results {
				if r := &out[i].Results[k]; len(r.Text) > briefBytes {
					r.Text = clip(r.Text, briefBytes) + " (shortened)"
				}
			}
		}
	}
	return say(out, SummaryAsk), nil
}
