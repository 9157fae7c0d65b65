package runner

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// turnsOf lets the lanes of whats wait for ever, gives one slot n times and says
// who got it.
func turnsOf(n int, whats ...string) (got []string) {
	s := NewSlots(0, events.StepKinds()...)
	for range n {
		for _, l := range s.lanes {
			l.asking = l.asking || slices.Contains(whats, l.what)
		}
		s.Release()
		for _, l := range s.lanes {
			select {
			case <-l.grant:
				got = append(got, l.what)
			default:
			}
		}
	}
	return got
}

func TestSlots_LanesInTurn(t *testing.T) {
	t.Parallel()
	if got := turnsOf(6, "step", "step-i1", "step-i7"); !slices.Equal(got, []string{"step-i1", "step-i7", "step", "step-i1", "step-i7", "step"}) {
		t.Errorf("turns %v, want each lane once in three", got)
	}
}

func TestSlots_InteractiveFirstAndBatchNeverStarved(t *testing.T) {
	t.Parallel()
	got := turnsOf(32, "step-i0", "step-b0", "step-b3")
	var batch []string
	for i, what := range got {
		if strings.HasPrefix(what, "step-b") {
			batch = append(batch, what)
			if i%batchShare != batchShare-1 {
				t.Errorf("turn %d is a batch run's", i)
			}
		}
	}
	if !slices.Equal(batch, []string{"step-b0", "step-b3", "step-b0", "step-b3"}) {
		t.Errorf("turns of batch runs %v, want one in eight, both agents in turn", batch)
	}
}

func TestSlots_NobodyOvertakesAQueue(t *testing.T) {
	t.Parallel()
	s := NewSlots(3, events.StepKinds()...)
	a, b := s.lanes[1], s.lanes[2]
	a.More(true)
	if s.TryAcquire() {
		t.Fatal("a commit took a slot while a lane is known to wait")
	}
	if n := a.Await(nil); n != 3 {
		t.Errorf("a lane that asks alone got %d slots of 3", n)
	}
	a.More(false)
	b.More(true)
	a.asking, b.asking = true, true
	s.Release()
	s.Release()
	if got := []int{<-b.grant, <-a.grant}; !slices.Equal(got, []int{1, 1}) {
		t.Errorf("two lanes got %v slots of two", got)
	}
	b.More(false)
	s.Release()
	if !s.TryAcquire() {
		t.Error("no slot for a commit while nobody waits")
	}
}

// A run that has a slot goes on with it in its own lane's turn only.
func TestSlots_KeepsForItsTurn(t *testing.T) {
	t.Parallel()
	s := NewSlots(0, events.StepKinds()...)
	own, other, batch := s.lanes[1], s.lanes[2], s.lanes[len(s.lanes)-1]
	if !s.Keep(own.what) {
		t.Error("did not keep its slot while nobody waits")
	}
	own.asking = true
	if !s.Keep(own.what) {
		t.Error("gave its slot to its own lane")
	}
	own.asking, other.asking = false, true
	var kept []bool
	for range 2 { // the other lane's turn is not used up by asking
		kept = append(kept, s.Keep(own.what))
	}
	s.Release()
	<-other.grant
	other.asking = true
	kept = append(kept, s.Keep(own.what))
	if kept[2] != true || kept[0] && kept[1] {
		t.Errorf("kept %v, want turns", kept)
	}
	other.asking, batch.asking = false, true
	var n int
	for range 2 * batchShare {
		if s.Keep(own.what) {
			n++
			continue
		}
		s.Release()
		<-batch.grant
		batch.asking = true
	}
	if n == 2*batchShare || n < 2*(batchShare-1)-1 {
		t.Errorf("kept %d turns of %d beside a batch lane", n, 2*batchShare)
	}
}
