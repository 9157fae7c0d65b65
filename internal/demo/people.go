package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// desk is the pricing manager's desk: it sees every proposal and decides, each
// one twice, when it is told to.
type desk struct {
	api *api
	// effects says how often a business key took effect on the other side: what
	// a person looks up to settle a doubt.
	effects func(business string) int

	mu       sync.Mutex
	open     bool            // decide whatever comes
	reserved map[string]bool // shops that are decided only by name
	waiting  map[string]request
	seen     map[string]bool
	decided  []request // actions whose decision was posted
	posts    int
	pairs    int
	accepted int
	other    []string
	wg       sync.WaitGroup
}

func newDesk(a *api, effects func(string) int, reserved ...string) *desk {
	d := &desk{api: a, effects: effects, reserved: map[string]bool{}, waiting: map[string]request{}, seen: map[string]bool{}}
	for _, shop := range reserved {
		d.reserved[shop] = true
	}
	return d
}

// watch polls for what waits until ctx ends, and then for decisions in flight.
func (d *desk) watch(ctx context.Context) {
	defer d.wg.Wait()
	for ctx.Err() == nil {
		if found, err := d.api.pendingApprovals(ctx); err == nil {
			d.sort(ctx, found)
		}
		select {
		case <-ctx.Done():
		case <-time.After(60 * time.Millisecond):
		}
	}
}

func (d *desk) sort(ctx context.Context, found []request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range found {
		if d.seen[r.ApprovalID] {
			continue
		}
		d.seen[r.ApprovalID] = true
		if r.Kind == "doubt" {
			d.wg.Go(func() { d.settle(ctx, r) })
			continue
		}
		d.waiting[r.ApprovalID] = r
	}
	if d.open {
		d.takeLocked(ctx, len(d.waiting))
	}
}

// setOpen opens or closes the desk; reserved shops stay closed.
func (d *desk) setOpen(open bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = open
}

// release decides up to n waiting proposals and says how many.
func (d *desk) release(ctx context.Context, n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.takeLocked(ctx, n)
}

func (d *desk) takeLocked(ctx context.Context, n int) int {
	taken := 0
	for id, r := range d.waiting {
		if taken == n {
			break
		}
		if d.reserved[shopIn(r.business())] {
			continue
		}
		delete(d.waiting, id)
		d.decideLocked(ctx, r)
		taken++
	}
	return taken
}

// releaseShop decides the proposal of a reserved shop; false when none waits.
func (d *desk) releaseShop(ctx context.Context, shop string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, r := range d.waiting {
		if shopIn(r.business()) == shop {
			delete(d.waiting, id)
			d.decideLocked(ctx, r)
			return true
		}
	}
	return false
}

// unreserve gives reserved shops back to the ordinary pile.
func (d *desk) unreserve() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reserved = map[string]bool{}
}

// waits counts the proposals that nobody has decided, reserved ones apart.
func (d *desk) waits() (free int, shops map[string]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	shops = map[string]bool{}
	for _, r := range d.waiting {
		shop := shopIn(r.business())
		shops[shop] = true
		if !d.reserved[shop] {
			free++
		}
	}
	return free, shops
}

// decideLocked posts the same decision twice: every other time in the same
// moment, else one after the other.
func (d *desk) decideLocked(ctx context.Context, r request) {
	d.decided = append(d.decided, r)
	together := len(d.decided)%2 == 1
	if together {
		d.pairs++
	}
	d.wg.Go(func() {
		if !together {
			d.post(ctx, r)
			d.post(ctx, r)
			return
		}
		var both sync.WaitGroup
		both.Go(func() { d.post(ctx, r) })
		both.Go(func() { d.post(ctx, r) })
		both.Wait()
	})
}

// post sends one decision until it is answered. A person presses the button
// again when the page says that the service is away.
func (d *desk) post(ctx context.Context, r request) {
	err := untilAnswered(ctx, func() error { return d.api.decide(ctx, r, "approve", "the price is right") })
	d.mu.Lock()
	defer d.mu.Unlock()
	d.posts++
	if err == nil {
		d.accepted++
		return
	}
	d.other = append(d.other, err.Error())
}

// settle answers a doubt after a look at the other side.
func (d *desk) settle(ctx context.Context, r request) {
	decision := "not_happened"
	if d.effects(r.business()) > 0 {
		decision = "happened"
	}
	err := untilAnswered(ctx, func() error { return d.api.decide(ctx, r, decision, "looked it up in the shop's back office") })
	if err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.other = append(d.other, "doubt: "+err.Error())
	}
}

// tally is what was posted so far.
func (d *desk) tally() (decided []request, posts, pairs, accepted int, other []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]request(nil), d.decided...), d.posts, d.pairs, d.accepted, append([]string(nil), d.other...)
}

// untilAnswered repeats do while nobody is there to answer: refused and broken
// connections, 502, 503 and 504. At most 15 s.
func untilAnswered(ctx context.Context, do func() error) error {
	deadline := time.Now().Add(15 * time.Second)
	for {
		err := do()
		if err == nil {
			return nil
		}
		if s, ok := errors.AsType[*status](err); ok {
			switch s.Code {
			case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			default:
				return err
			}
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return fmt.Errorf("no answer: %w", err)
		}
		time.Sleep(80 * time.Millisecond)
	}
}
