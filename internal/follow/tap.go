package follow

import "context"

// Tap hears everything that the hub hears, at once and in order. Its methods
// hold the hub up: they note and return.
type Tap interface {
	Heard(at Position, e Event)
	// Lost says that events may have gone by unheard.
	Lost()
}

// Tap adds t for the life of the follower. Call it before Run.
func (f *Follower) Tap(t Tap) {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	f.hub.taps = append(f.hub.taps, t)
}

// Since counts the events of a namespace after the place p and says whether
// they are all known: otherwise some were removed, or p is no place of this
// stream. It asks the stream only about a place that this process has not heard of yet.
func (f *Follower) Since(ctx context.Context, namespace string, p Position) (missed int, ok bool) {
	h := f.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case p.Epoch != h.epoch || h.epoch == "":
		return 0, false
	case p.Seq == h.last:
		return 0, true
	case p.Seq > h.last: // another replica was ahead of this one, or nobody was there
		h.mu.Unlock()
		epoch, _, last, err := f.tail.EventsState(ctx)
		h.mu.Lock()
		return 0, err == nil && epoch == p.Epoch && p.Seq <= last
	}
	recent := h.whole()
	if len(recent) == 0 || recent[0].Seq > p.Seq+1 {
		return 0, false
	}
	for _, e := range recent {
		if e.Seq > p.Seq && e.Message.Namespace == namespace {
			missed++
		}
	}
	return missed, true
}

// Recent returns at most limit of the newest events of a namespace that are in
// memory and fit, the newest first, and how many were looked at.
func (f *Follower) Recent(namespace string, limit int, fits func(Event) bool) (found []Event, looked int) {
	f.hub.mu.Lock()
	recent := append([]Event(nil), f.hub.ring...)
	f.hub.mu.Unlock()
	for i := len(recent) - 1; i >= 0 && len(found) < limit; i-- {
		if e := recent[i]; e.Message.Namespace == namespace {
			looked++
			if fits(e) {
				found = append(found, e)
			}
		}
	}
	return found, looked
}
