package tools

// Slots bounds how many calls of one pool run at once in this process. It is
// safe for concurrent use.
type Slots chan struct{}

// NewSlots returns n free slots.
func NewSlots(n int) Slots { return make(Slots, n) }

// TryAcquire takes a slot when one is free.
func (s Slots) TryAcquire() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

// Release gives a slot back.
func (s Slots) Release() { <-s }
