package postgres_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/trigger"
	"github.com/holdfast-run/holdfast/services/trigger/postgres"
)

func logged(key string) trigger.Delivery {
	d := delivery(key)
	d.Attempt = &trigger.Attempt{
		ID: d.ID, DeliveryID: d.ID, RunID: d.RunID, Namespace: d.Namespace, Webhook: d.Source.Name, Version: "sha256:hook",
		Outcome: "accepted", Status: 202, ReceivedAt: time.Now().UTC().Truncate(time.Microsecond), Took: 1500 * time.Microsecond,
		Remote: "127.0.0.1:4000", ContentType: "application/json", Header: map[string][]string{"User-Agent": {"a<b>&\u2028"}},
		BodyBytes: 9, BodyDigest: "sha256:body", Body: []byte("{\"a\":\x001}"), EventID: "evt", Key: key,
	}
	return d
}

// Whether an insert shared its statement or went alone, the rows are the same,
// byte for byte, and so is the log's entry that goes with it.
func TestInsert_SharedOrAlone(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	store := postgres.New(db.Open(t, role))
	const n = 120
	sent := make([]trigger.Delivery, n)
	for i := range sent {
		if sent[i] = logged(fmt.Sprint(i)); i%3 == 0 {
			sent[i].Attempt = nil
		}
		if i%4 == 0 {
			sent[i].Labels, sent[i].Held = nil, true
		}
	}
	var wg sync.WaitGroup
	for i := range sent {
		wg.Go(func() {
			stored, inserted, err := store.Insert(t.Context(), sent[i])
			if err != nil || !inserted || stored.RunID != sent[i].RunID || stored.AcceptedAt.IsZero() {
				t.Errorf("insert %d: run %s, inserted %v, %v", i, stored.RunID, inserted, err)
			}
		})
	}
	wg.Wait()
	// A transaction is one statement here, so its id tells who shared one.
	var statements int
	if err := db.Pool.QueryRow(t.Context(), "SELECT count(DISTINCT xmin::text) FROM trigger.deliveries").Scan(&statements); err != nil {
		t.Fatal(err)
	}
	if statements > n/2 {
		t.Errorf("%d statements for %d inserts at once: they were not merged", statements, n)
	}
	for _, d := range sent {
		got, err := store.Delivery(t.Context(), "default", d.ID)
		if err != nil {
			t.Fatal(err)
		}
		if string(got.Input) != string(d.Input) || got.Held != d.Held || got.Ref != d.Ref || got.Digest != d.Digest || len(got.Labels) != len(d.Labels) {
			t.Errorf("delivery %s: read %+v, sent %+v", d.Key, got, d)
		}
		a, err := store.Attempt(t.Context(), "default", d.ID)
		if d.Attempt == nil {
			if err == nil {
				t.Errorf("delivery %s has an entry in the log, and sent none", d.Key)
			}
			continue
		}
		if err != nil {
			t.Fatalf("entry of delivery %s: %v", d.Key, err)
		}
		a.ReceivedAt = a.ReceivedAt.UTC()
		for field, pair := range map[string][2]any{
			"body": {d.Attempt.Body, a.Body}, "headers": {d.Attempt.Header, a.Header}, "received": {d.Attempt.ReceivedAt, a.ReceivedAt},
			"took": {d.Attempt.Took, a.Took}, "run": {d.Attempt.RunID, a.RunID}, "delivery": {d.Attempt.DeliveryID, a.DeliveryID},
			"status": {d.Attempt.Status, a.Status}, "count": {int64(1), a.Count}, "key": {d.Attempt.Key, a.Key},
		} {
			if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
				t.Errorf("entry of delivery %s: %s (-sent +read):\n%s", d.Key, field, diff)
			}
		}
	}
}

// Repeats of many keys arrive at two replicas at once, also within one statement:
// each key has one run, one delivery and one entry in the log.
func TestInsert_RepeatsInOneBatch(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	stores := []*postgres.Store{postgres.New(db.Open(t, role)), postgres.New(db.Open(t, role))}
	const keys, repeats = 25, 8
	var mu sync.Mutex
	runs := map[string]map[events.RunID]bool{}
	won := map[string]int{}
	var wg sync.WaitGroup
	for r := range repeats {
		for k := range keys {
			key := fmt.Sprint("evt-", k)
			wg.Go(func() {
				stored, inserted, err := stores[r%2].Insert(t.Context(), logged(key))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if runs[key] == nil {
					runs[key] = map[events.RunID]bool{}
				}
				runs[key][stored.RunID] = true
				if inserted {
					won[key]++
				}
			})
		}
	}
	wg.Wait()
	for k := range keys {
		key := fmt.Sprint("evt-", k)
		if len(runs[key]) != 1 || won[key] != 1 {
			t.Errorf("%s: answered with %d runs, %d inserts won, want 1 and 1", key, len(runs[key]), won[key])
		}
	}
	for _, table := range []string{"trigger.deliveries", "trigger.attempts"} {
		if n := count(t, db, table); n != keys {
			t.Errorf("%s has %d rows, want %d", table, n, keys)
		}
	}
}

// What Postgres refuses fails alone; those that came with it are stored.
func TestInsert_RefusedAlone(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	store := postgres.New(db.Open(t, role))
	const n = 60
	var wg sync.WaitGroup
	for i := range n {
		d := logged(fmt.Sprint(i))
		switch i {
		case 7:
			d.Source.Kind = "pigeon" // 23514
		case 20:
			d.Attempt.Detail = "a\x00b" // 22021
		case 33:
			d.Input = []byte(`{"a": "\u0000"}`) // never enters a batch
		}
		bad := i == 7 || i == 20 || i == 33
		wg.Go(func() {
			if _, _, err := store.Insert(t.Context(), d); (err != nil) != bad {
				t.Errorf("insert %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if got := count(t, db, "trigger.deliveries"); got != n-3 {
		t.Errorf("%d rows, want %d", got, n-3)
	}
}
