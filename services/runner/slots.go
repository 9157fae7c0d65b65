package runner

import "sync"

// Slots counts the model calls that may run at once. It is safe for concurrent
// use and never blocks.
type Slots struct {
	mu   sync.Mutex
	free int
}

// NewSlots returns n free slots.
func NewSlots(n int) *Slots { return &Slots{free: n} }

// TryAcquire takes a slot if one is free.
func (s *Slots) TryAcquire() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free == 0 {
		return false
	}
	s.free--
	return true
}

// Release gives a slot back.
func (s *Slots) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
}
