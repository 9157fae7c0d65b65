package bus

import (
	"context"
	"sync"
	"time"
)

// heldKey names a stored message. The time it was stored is part of it: after a
// loss of NATS's data the sequence numbers begin again.
type heldKey struct {
	stream string
	seq    uint64
	stored int64 // Unix nanoseconds
}

// held is a message that a handler of this process works on.
type held struct {
	key heldKey
	by  *Consumer

	mu        sync.Mutex
	reply     string    // of the newest delivery
	delivered uint64    // of the newest delivery
	beat      time.Time // when the server last heard of us: the delivery or an InProgress
	lost      bool      // its stream is gone: say nothing about it
	acked     bool      // the acknowledgement is on its way
	released  bool      // no handler works on it any more
	over      time.Time // when it was acknowledged and released
}

// heldTable is what this process holds. A redelivery of a held message is
// adopted here, before anything is read from Postgres: no second handler starts
// and the newest delivery is the one that is acknowledged. What was acknowledged is
// remembered for another AckWait: a redelivery may have crossed that, or it was lost
// with a connection.
type heldTable struct {
	mu sync.Mutex
	m  map[heldKey]*held
}

func newHeldTable() *heldTable { return &heldTable{m: map[heldKey]*held{}} }

// take returns a new entry for a delivery, or the entry that adopted it.
func (t *heldTable) take(key heldKey, by *Consumer, reply string, delivered uint64) (h *held, adopted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h, ok := t.m[key]; ok && h.adopt(reply, delivered) {
		return h, true
	}
	h = &held{key: key, by: by, reply: reply, delivered: delivered, beat: time.Now()}
	t.m[key] = h
	return h, false
}

// adopt reports false when the entry is over.
func (h *held) adopt(reply string, delivered uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.acked:
		// The redelivery crossed the acknowledgement.
		_ = h.by.bus.nc.Publish(reply, wireAck)
		return true
	case h.released || h.lost:
		return false
	}
	h.reply, h.delivered, h.beat = reply, delivered, time.Now()
	return true
}

func (t *heldTable) release(h *held) {
	h.mu.Lock()
	h.released = true
	acked := h.acked
	if acked {
		h.over = time.Now()
	}
	h.mu.Unlock()
	if acked {
		return // pulse forgets it
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m[h.key] == h { // a later delivery may have its own entry
		delete(t.m, h.key)
	}
}

// forget removes what was acknowledged so long ago that no redelivery is on its way.
func (t *heldTable) forget(hs []*held) (open []*held) {
	open = hs[:0]
	for _, h := range hs {
		h.mu.Lock()
		over := h.over
		h.mu.Unlock()
		switch {
		case over.IsZero():
			open = append(open, h)
		case time.Since(over) > AckWait:
			t.mu.Lock()
			if t.m[h.key] == h {
				delete(t.m, h.key)
			}
			t.mu.Unlock()
		}
	}
	return open
}

// lose marks everything that c holds as gone.
func (t *heldTable) lose(c *Consumer) (n int) {
	for _, h := range t.all() {
		if h.by != c {
			continue
		}
		h.mu.Lock()
		if !h.acked {
			h.lost = true
			n++
		}
		h.mu.Unlock()
	}
	return n
}

func (t *heldTable) all() []*held {
	t.mu.Lock()
	defer t.mu.Unlock()
	hs := make([]*held, 0, len(t.m))
	for _, h := range t.m {
		hs = append(hs, h)
	}
	return hs
}

// pulse says InProgress about every held message twice a second, while the
// message's consumer may still hold it.
func (b *Bus) pulse(ctx context.Context) {
	t := time.NewTicker(inProgressAt / 5)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		hs := b.held.forget(b.held.all())
		if len(hs) == 0 {
			continue
		}
		may := map[*Consumer]bool{}
		for _, h := range hs {
			ok, known := may[h.by]
			if !known {
				ok = (h.by.c.Hold == nil || h.by.c.Hold()) && h.by.current()
				may[h.by] = ok
			}
			if ok {
				h.inProgress()
			}
		}
	}
}

func (h *held) inProgress() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost || h.acked || h.released || time.Since(h.beat) < inProgressAt-inProgressAt/10 {
		return
	}
	if h.by.bus.nc.Publish(h.reply, wireInProgress) == nil {
		h.beat = time.Now()
	}
}
