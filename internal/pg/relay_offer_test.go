package pg_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// offer commits rows and offers their messages.
func (d *desk) offer(r *pg.Relay, ids ...string) {
	d.t.Helper()
	for _, id := range ids {
		d.insert(id)
		r.Offer(events.Message{ID: id})
	}
}

func (d *desk) messages() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.sent)
}

func (d *desk) marked() string {
	d.t.Helper()
	return text(d.t, d.pool, "SELECT count(*)::text FROM desk.deliveries WHERE announce_count = 1")
}

// What is offered is published from memory, once, and marked when there is much
// of it or with the next sweep.
func TestRelay_OffersAreNotLoaded(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	r := d.relay()
	r.Every = time.Hour
	var loads atomic.Int64
	load := r.Load
	r.Load = func(ctx context.Context, limit int) ([]events.Message, error) {
		loads.Add(1)
		return load(ctx, limit)
	}
	d.run(r)
	eventually(t, 20*time.Second, "the first sweep", func() bool { return loads.Load() == 1 }) // the sweep at the start
	var want []string
	for i := range 40 { // several batches
		id := fmt.Sprintf("c%02d", i)
		want = append(want, id+" "+id)
		d.offer(r, id)
	}
	eventually(t, 20*time.Second, "all to be published", func() bool { return len(d.messages()) == len(want) })
	if n := d.marked(); n != "0" {
		t.Errorf("%s rows are marked before the sweep", n)
	}
	got := d.messages()
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("published %v, want each offer once under its own id", got)
	}
	if n := loads.Load(); n != 1 {
		t.Errorf("%d loads, want only the one at the start", n)
	}
	r.Kick()
	eventually(t, 20*time.Second, "the rows to be marked", func() bool { return d.marked() == "40" })
	if n := len(d.messages()); n != len(want) {
		t.Errorf("%d messages after the mark, want %d: what is published is not loaded", n, len(want))
	}
}

// A batch goes out together when the bus can do that; who is refused in it is
// announced again.
func TestRelay_BatchesTogether(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	r := d.relay()
	var batches atomic.Int64
	r.PublishAll = func(ctx context.Context, batch []events.Message) []error {
		errs := make([]error, len(batch))
		for i, m := range batch {
			if errs[i] = r.Publish(ctx, m); errs[i] == nil && batches.Load() == 0 && m.ID == "b" {
				errs[i] = errors.New("no responders")
			}
		}
		batches.Add(1)
		return errs
	}
	for _, id := range []string{"a", "b", "c"} {
		d.insert(id)
	}
	d.run(r)
	eventually(t, 20*time.Second, "the rows to be marked", func() bool { return d.marked() == "3" })
	got := d.messages()
	slices.Sort(got)
	if want := []string{"a a", "b b", "b b", "c c"}; !slices.Equal(got, want) {
		t.Errorf("published %v, want %v", got, want)
	}
}

// Offers that NATS does not take are announced from the table.
func TestRelay_RefusedOffersAreLoaded(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	r := d.relay()
	d.run(r)
	var tries atomic.Int64
	d.mu.Lock()
	d.refuse = func(events.Message) error { tries.Add(1); return errors.New("no responders") }
	d.mu.Unlock()
	d.offer(r, "a", "b", "c")
	eventually(t, 20*time.Second, "a refusal", func() bool { return tries.Load() > 0 })
	d.mu.Lock()
	d.refuse = nil
	d.mu.Unlock()
	eventually(t, 20*time.Second, "the rows to be marked", func() bool { return d.marked() == "3" })
}

// More than the relay holds are announced all the same.
func TestRelay_OffersOverflow(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	r := d.relay()
	const n = 1500
	exec(t, d.pool, "INSERT INTO desk.deliveries (cause) SELECT 'o' || g FROM generate_series(1, 1500) g")
	for i := range n { // nobody runs yet
		r.Offer(events.Message{ID: fmt.Sprintf("o%d", i+1)})
	}
	d.run(r)
	eventually(t, 20*time.Second, "the rows to be marked", func() bool {
		return text(t, d.pool, "SELECT count(*)::text FROM desk.deliveries WHERE announced_at IS NULL") == "0"
	})
}

// A relay that ends marks what it has published.
func TestRelay_StopMarks(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	r := d.relay()
	r.Every = time.Hour
	published := make(chan struct{})
	publish := r.Publish
	r.Publish = func(ctx context.Context, m events.Message) error {
		defer close(published)
		return publish(ctx, m)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	d.offer(r, "last")
	<-published
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := d.marked(); n != "1" {
		t.Errorf("%s rows are marked, want 1", n)
	}
}
