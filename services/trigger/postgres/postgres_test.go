package postgres_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/trigger"
	"github.com/holdfast-run/holdfast/services/trigger/postgres"
)

const role = "holdfast_trigger"

func delivery(key string) trigger.Delivery {
	return trigger.Delivery{
		ID: trigger.DeliveryID(uuid.Must(uuid.NewV7()).String()), Namespace: "default",
		Source: trigger.Source{Kind: trigger.SourceWebhook, Name: "orders"}, Key: key, Digest: "sha256:request",
		RunID: events.NewRunID(), Ref: events.Ref{Kind: events.KindAgent, Name: "check", Digest: "sha256:agent"},
		Input: json.RawMessage(`{"b": 9007199254740993, "a": 1e400,  "z":-0}`), Labels: map[string]string{"shop": "Ä😀"},
		Principal: "alice", TraceParent: "00-aa-bb-01",
	}
}

func TestQueriesPrepare(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	if err := pg.PrepareAll(t.Context(), db.Open(t, role), postgres.Queries); err != nil {
		t.Error(err)
	}
}

func TestInsert_KeepsEveryByte(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	store := postgres.New(db.Open(t, role))
	d := delivery("evt_1")
	stored, inserted, err := store.Insert(t.Context(), d)
	if err != nil || !inserted {
		t.Fatalf("inserted %v, %v", inserted, err)
	}
	got, err := store.Delivery(t.Context(), "default", d.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(stored, got); diff != "" {
		t.Errorf("read back (-inserted +read):\n%s", diff)
	}
	if diff := cmp.Diff(string(d.Input), string(got.Input)); diff != "" {
		t.Errorf("input (-want +got):\n%s", diff)
	}
	if _, err := store.Delivery(t.Context(), "other", d.ID); !errors.Is(err, trigger.ErrNotFound) {
		t.Errorf("another namespace's delivery: %v, want ErrNotFound", err)
	}
}

func TestInsert_OneRunPerKey(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	// Two stores as two replicas have.
	stores := []*postgres.Store{postgres.New(db.Open(t, role)), postgres.New(db.Open(t, role))}
	const n = 20
	runs, winners := make([]events.RunID, n), make([]bool, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			stored, inserted, err := stores[i%2].Insert(t.Context(), delivery("evt_1"))
			if err != nil {
				t.Error(err)
			}
			runs[i], winners[i] = stored.RunID, inserted
		})
	}
	wg.Wait()
	won := 0
	for i := range n {
		if runs[i] != runs[0] {
			t.Errorf("insert %d was answered with run %s, another with %s", i, runs[i], runs[0])
		}
		if winners[i] {
			won++
		}
	}
	if won != 1 {
		t.Errorf("%d inserts won, want 1", won)
	}
	if n := count(t, db, "trigger.deliveries"); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}

func TestInsert_WithoutKeyEachIsItsOwn(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	store := postgres.New(db.Open(t, role))
	first := delivery("")
	for _, d := range []trigger.Delivery{first, delivery("")} {
		if _, inserted, err := store.Insert(t.Context(), d); err != nil || !inserted {
			t.Fatalf("inserted %v, %v", inserted, err)
		}
	}
	// The repeat of an insert whose reply was lost is the insert.
	stored, inserted, err := store.Insert(t.Context(), first)
	if err != nil || !inserted || stored.RunID != first.RunID {
		t.Errorf("repeated insert: run %s, inserted %v, %v", stored.RunID, inserted, err)
	}
	if n := count(t, db, "trigger.deliveries"); n != 2 {
		t.Errorf("%d rows, want 2", n)
	}
}

func TestInsert_KeysOfOtherSourcesAreOthers(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	store := postgres.New(db.Open(t, role))
	a, b, c, d := delivery("k"), delivery("k"), delivery("k"), delivery("k")
	b.Namespace = "team-a"
	c.Source.Name = "payments"
	d.Source.Kind = trigger.SourceAPI
	for i, d := range []trigger.Delivery{a, b, c, d} {
		if _, inserted, err := store.Insert(t.Context(), d); err != nil || !inserted {
			t.Errorf("delivery %d: inserted %v, %v", i, inserted, err)
		}
	}
}

func TestDeliveries_NewestFirstInPages(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	store := postgres.New(db.Open(t, role))
	var want []trigger.DeliveryID
	for i := range 5 {
		d := delivery(fmt.Sprint(i))
		if _, _, err := store.Insert(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		want = append([]trigger.DeliveryID{d.ID}, want...)
	}
	other := delivery("x")
	other.Namespace = "other"
	if _, _, err := store.Insert(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	var got []trigger.DeliveryID
	before := trigger.DeliveryID("")
	for {
		page, err := store.Entries(t.Context(), "default", trigger.EntryFilter{}, before, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, d := range page {
			got = append(got, d.ID)
		}
		before = page[len(page)-1].ID
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func hand(name string, next time.Time) *trigger.Hand {
	return &trigger.Hand{Namespace: "default", Name: name, Digest: "sha256:s", Next: &trigger.Fire{At: next, Nominal: "2026-11-29T12:00"}}
}

func TestTick_OneReplicaFiresOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	const schedules, replicas = 8, 4
	first := postgres.New(db.Open(t, role))
	for i := range schedules {
		if err := first.SetHand(t.Context(), nil, hand(fmt.Sprintf("s%d", i), time.Now().Add(-time.Second))); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	decided := map[string]int{}
	decide := func(_ context.Context, h trigger.Held) (trigger.Tock, error) {
		mu.Lock()
		decided[h.Name]++
		mu.Unlock()
		d := delivery(h.Next.Key())
		d.Source = trigger.Source{Kind: trigger.SourceSchedule, Name: h.Name}
		next := h.Hand
		next.Next = &trigger.Fire{At: h.Now.Add(time.Hour), Nominal: "2026-11-29T13:00"}
		return trigger.Tock{Next: &next, Fires: []trigger.Firing{{
			Fire: *h.Next, Digest: h.Digest, Origin: trigger.OriginClock, State: trigger.FireStarted, RunID: d.RunID, Delivery: &d,
		}}}, nil
	}
	var wg sync.WaitGroup
	for range replicas {
		store := postgres.New(db.Open(t, role))
		wg.Go(func() {
			for range schedules {
				if _, err := store.Tick(t.Context(), nil, decide); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i := range schedules {
		if n := decided[fmt.Sprintf("s%d", i)]; n != 1 {
			t.Errorf("schedule s%d was decided %d times", i, n)
		}
	}
	if n := count(t, db, "trigger.fires"); n != schedules {
		t.Errorf("%d fires, want %d", n, schedules)
	}
	if n := count(t, db, "trigger.deliveries"); n != schedules {
		t.Errorf("%d deliveries, want %d", n, schedules)
	}
	if wait, ok, _, err := first.UntilDue(t.Context(), nil); err != nil || !ok || wait < 50*time.Minute || wait > time.Hour {
		t.Errorf("next due in %s, %v, %v; want about an hour", wait, ok, err)
	}
}

// Whatever moves a hand back (a clock, a rule change, an operator), the wall time
// that has fired does not fire again.
func TestTick_AFireIsARowForEver(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	store := postgres.New(db.Open(t, role))
	decide := func(_ context.Context, h trigger.Held) (trigger.Tock, error) {
		d := delivery(h.Next.Key())
		d.Source = trigger.Source{Kind: trigger.SourceSchedule, Name: h.Name}
		next := h.Hand
		next.Next = nil
		return trigger.Tock{Next: &next, Fires: []trigger.Firing{{
			Fire: *h.Next, Digest: h.Digest, Origin: trigger.OriginClock, State: trigger.FireStarted, RunID: d.RunID, Delivery: &d,
		}}}, nil
	}
	for range 3 {
		if _, err := db.Pool.Exec(t.Context(), `DELETE FROM trigger.schedules`); err != nil {
			t.Fatal(err)
		}
		if err := store.SetHand(t.Context(), nil, hand("s", time.Now().Add(-time.Second))); err != nil {
			t.Fatal(err)
		}
		if fired, err := store.Tick(t.Context(), nil, decide); err != nil || !fired {
			t.Fatalf("fired %v, %v", fired, err)
		}
	}
	if n := count(t, db, "trigger.deliveries"); n != 1 {
		t.Errorf("%d deliveries, want 1", n)
	}
	last, err := store.LastFires(t.Context(), "default")
	if err != nil {
		t.Fatal(err)
	}
	if f := last["s"]; f.Nominal != "2026-11-29T12:00" || f.RunID == "" {
		t.Errorf("last fire %+v", f)
	}
}

func TestTick_AnErrorFiresNothing(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	store := postgres.New(db.Open(t, role))
	if err := store.SetHand(t.Context(), nil, hand("s", time.Now().Add(-time.Second))); err != nil {
		t.Fatal(err)
	}
	fail := errors.New("no catalog")
	if _, err := store.Tick(t.Context(), nil, func(context.Context, trigger.Held) (trigger.Tock, error) { return trigger.Tock{}, fail }); !errors.Is(err, fail) {
		t.Fatalf("error %v, want %v", err, fail)
	}
	hands, _, err := store.Hands(t.Context(), "")
	if err != nil || len(hands) != 1 || hands[0].Next == nil || hands[0].Version != 1 {
		t.Errorf("hands %+v, %v; want the hand untouched", hands, err)
	}
}

// A schedule that cannot be decided keeps no other from firing.
func TestTick_LeavesOutWhatIsSick(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	store := postgres.New(db.Open(t, role))
	if err := store.SetHand(t.Context(), nil, hand("sick", time.Now().Add(-time.Minute))); err != nil {
		t.Fatal(err)
	}
	sick := []trigger.HandName{{Namespace: "default", Name: "sick"}}
	none := func(context.Context, trigger.Held) (trigger.Tock, error) {
		t.Error("a schedule that was left out is decided")
		return trigger.Tock{}, nil
	}
	if fired, err := store.Tick(t.Context(), sick, none); err != nil || fired {
		t.Errorf("fired %v, %v", fired, err)
	}
	if wait, ok, _, err := store.UntilDue(t.Context(), sick); err != nil || ok {
		t.Errorf("due in %s, %v, %v; want nothing", wait, ok, err)
	}
	if wait, ok, _, err := store.UntilDue(t.Context(), nil); err != nil || !ok || wait > 0 {
		t.Errorf("due in %s, %v, %v; want overdue", wait, ok, err)
	}
}

func TestSetHand_LosesToAnotherChange(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	store := postgres.New(db.Open(t, role))
	next := time.Now().Add(time.Hour).Truncate(time.Microsecond)
	if err := store.SetHand(t.Context(), nil, hand("s", next)); err != nil {
		t.Fatal(err)
	}
	read := func() trigger.Hand {
		hands, _, err := store.Hands(t.Context(), "default")
		if err != nil || len(hands) != 1 {
			t.Fatalf("hands %+v, %v", hands, err)
		}
		return hands[0]
	}
	have := read()
	won := have
	won.Digest = "sha256:won"
	if err := store.SetHand(t.Context(), &have, &won); err != nil {
		t.Fatal(err)
	}
	lost := have
	lost.Digest = "sha256:lost"
	for name, change := range map[string]*trigger.Hand{"change": &lost, "delete": nil} {
		if err := store.SetHand(t.Context(), &have, change); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := store.SetHand(t.Context(), nil, hand("s", next)); err != nil {
		t.Error(err)
	}
	if got := read(); got.Digest != "sha256:won" || got.Version != 2 {
		t.Errorf("hand %+v, want the one that won", got)
	}
}

func TestReject_IsOneRowPerMessage(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	store := postgres.New(db.Open(t, role))
	r := trigger.Rejection{Namespace: "default", Source: trigger.Source{Kind: trigger.SourceEvent, Name: "orders"}, MessageID: "e1",
		Code: "invalid_json", Detail: "body: it is empty", Data: []byte{0xff, 0}}
	for range 2 {
		if err := store.Reject(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(t, db, "trigger.rejected"); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}

// The service reads others only through their views, and its own table is closed
// to readers of its view.
func TestRoles(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for name, tc := range map[string]struct {
		role, query string
		allowed     bool
	}{
		"what landed":                        {role, `SELECT * FROM runner.v_landed LIMIT 1`, true},
		"the runner's journal":               {role, `SELECT * FROM runner.journal LIMIT 1`, false},
		"the runner's runs":                  {role, `SELECT * FROM runner.runs LIMIT 1`, false},
		"the runner's runs, to write":        {role, `DELETE FROM runner.runs`, false},
		"definitions":                        {role, `SELECT * FROM catalog.v_current LIMIT 1`, true},
		"definitions, to write":              {role, `DELETE FROM catalog.current`, false},
		"the console reads the view":         {"holdfast_console", `SELECT * FROM trigger.v_deliveries LIMIT 1`, true},
		"the console does not read the rows": {"holdfast_console", `SELECT * FROM trigger.deliveries LIMIT 1`, false},
		"the runner does not read the rows":  {"holdfast_runner", `SELECT * FROM trigger.deliveries LIMIT 1`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := db.Open(t, tc.role).Exec(t.Context(), tc.query)
			pe, denied := errors.AsType[*pgconn.PgError](err)
			denied = denied && pe.Code == "42501" // insufficient_privilege
			if denied == tc.allowed || err != nil && !denied {
				t.Errorf("%s: %v, want allowed = %v", tc.query, err, tc.allowed)
			}
		})
	}
}

func count(t *testing.T, db *pgtest.DB, table string) (n int) {
	t.Helper()
	if err := db.Pool.QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
