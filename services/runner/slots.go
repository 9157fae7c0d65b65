package runner

import (
	"slices"
	"sync"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// batchShare is which turn of how many is a batch run's while interactive runs wait
// too.
const batchShare = 8

// Slots counts the model calls that may run at once and says whose turn the next
// free one is. Lanes of the same priority are served in turn; interactive ones come
// before batch ones, but for one turn of eight. It is safe for concurrent use.
type Slots struct {
	mu      sync.Mutex
	free    int
	lanes   []*Lane
	backlog int            // lanes that are known to have a message
	turns   int            // since the last one of a batch run
	last    map[string]int // the lane that was served last, by priority
}

// Lane is one queue of owed model calls in this process. Its slots are those of all.
type Lane struct {
	slots    *Slots
	what     string // of its steps
	priority string
	index    int
	grant    chan int // while asking; holds one
	asking   bool     // waits for a turn
	backlog  bool     // is known to have a message
}

// NewSlots returns n free slots, for which lanes of steps wait.
func NewSlots(n int, whats ...string) *Slots {
	s := &Slots{free: n, last: map[string]int{}}
	for i, what := range whats {
		l := &Lane{slots: s, what: what, priority: events.PriorityInteractive, index: i, grant: make(chan int, 1)}
		if slices.Contains(batchKinds, what) {
			l.priority = events.PriorityBatch
		}
		s.lanes = append(s.lanes, l)
	}
	return s
}

var batchKinds = func() (kinds []string) {
	for i := range events.StepLanes {
		kinds = append(kinds, events.RunStepLane(events.PriorityBatch, i))
	}
	return kinds
}()

// Lanes lists the lanes in the order of NewSlots.
func (s *Slots) Lanes() []*Lane { return s.lanes }

// TryAcquire takes a slot if one is free and no lane is known to wait: who comes
// with a call of its own does not overtake those that stand in a queue.
func (s *Slots) TryAcquire() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free == 0 || s.backlog > 0 {
		return false
	}
	s.free--
	return true
}

// Release gives a slot back; a lane that waits gets it.
func (s *Slots) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	s.serve()
}

// serve gives free slots to the lanes that ask, one at a time in turn; a lane that
// asks alone gets all there are.
func (s *Slots) serve() {
	for s.free > 0 {
		l, others := s.next(nil)
		if l == nil {
			return
		}
		n := 1
		if !others && s.backlog <= 1 {
			n = min(s.free, maxGrant)
		}
		s.served(l)
		s.free -= n
		l.asking = false
		l.grant <- n
	}
}

// maxGrant is how many messages are asked for at once.
const maxGrant = 256

// next is the lane whose turn it is, own counting as one that asks, and whether
// others ask beside it.
func (s *Slots) next(own *Lane) (turn *Lane, others bool) {
	n := 0
	first := map[string]*Lane{} // of each priority
	for i := range s.lanes {
		for _, p := range events.Priorities {
			l := s.lanes[(s.last[p]+1+i)%len(s.lanes)]
			if l.priority != p || !l.asking && l != own {
				continue
			}
			n++
			if first[p] == nil {
				first[p] = l
			}
		}
	}
	turn = first[events.PriorityInteractive]
	if batch := first[events.PriorityBatch]; batch != nil && (turn == nil || s.turns >= batchShare-1) {
		turn = batch
	}
	return turn, n > 1
}

// served counts a turn.
func (s *Slots) served(l *Lane) {
	s.last[l.priority] = l.index
	s.turns++
	if l.priority == events.PriorityBatch {
		s.turns = 0
	}
}

// Keep reports whether a run of the lane what may go on with the slot that it has:
// if no other lane waits, or if it is its own turn again.
func (s *Slots) Keep(what string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.lanes, func(l *Lane) bool { return l.what == what })
	if i < 0 {
		return true
	}
	own := s.lanes[i]
	turn, others := s.next(own)
	if turn != own {
		return false
	}
	if others {
		s.served(own)
	}
	return true
}

// Waited reports whether any lane waits for a slot.
func (s *Slots) Waited() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.lanes, func(l *Lane) bool { return l.asking })
}

// What is the kind of step that the lane takes.
func (l *Lane) What() string { return l.what }

// TryAcquire takes a slot for a message that has come already.
func (l *Lane) TryAcquire() bool {
	l.slots.mu.Lock()
	defer l.slots.mu.Unlock()
	if l.slots.free == 0 {
		return false
	}
	l.slots.free--
	return true
}

// Release gives a slot back.
func (l *Lane) Release() { l.slots.Release() }

// Await waits for the lane's turn and returns how many slots it has then; 0 when
// done was closed.
func (l *Lane) Await(done <-chan struct{}) int {
	l.slots.mu.Lock()
	l.asking = true
	l.slots.serve()
	l.slots.mu.Unlock()
	select {
	case n := <-l.grant:
		return n
	case <-done:
	}
	l.slots.mu.Lock()
	defer l.slots.mu.Unlock()
	if l.asking {
		l.asking = false
		return 0
	}
	return <-l.grant // it came in the same moment
}

// More says whether the lane is known to have another message.
func (l *Lane) More(more bool) {
	l.slots.mu.Lock()
	defer l.slots.mu.Unlock()
	if more != l.backlog {
		l.backlog = more
		if more {
			l.slots.backlog++
		} else {
			l.slots.backlog--
		}
	}
}
