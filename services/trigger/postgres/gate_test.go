package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/trigger"
	"github.com/holdfast-run/holdfast/services/trigger/postgres"
)

var gate = trigger.HookName{Namespace: "default", Name: "orders"}

// enter asks n times and returns how many were let in, and the last answer.
func enter(t *testing.T, store *postgres.Store, n int, l trigger.Limits) (in int, last trigger.Entrance) {
	t.Helper()
	for range n {
		answer, err := store.Enter(t.Context(), gate, events.NewRunID(), l)
		if err != nil {
			t.Fatal(err)
		}
		if last = answer; answer == (trigger.Entrance{}) {
			in++
		}
	}
	return in, last
}

// A bucket is full at first, fills by the time that passes in the database, holds
// no more than the burst of now, and refuses by a wait that is enough.
func TestGate_Bucket(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	store := postgres.New(db.Open(t, role))
	slow := trigger.Limits{PerMinute: 1, Burst: 5}
	if in, last := enter(t, store, 7, slow); in != 5 || last.Wait <= 50*time.Second || last.Wait > time.Minute {
		t.Errorf("%d of 7 were let in, then wait %s; want 5 and nearly a minute", in, last.Wait)
	}
	pass := func(span string) {
		t.Helper()
		if _, err := db.Pool.Exec(t.Context(), `UPDATE trigger.gates SET refilled_at = refilled_at - $1::interval`, span); err != nil {
			t.Fatal(err)
		}
	}
	pass("2 min")
	if in, _ := enter(t, store, 4, slow); in != 2 {
		t.Errorf("two minutes later %d were let in, want 2", in)
	}
	pass("1 day")
	if in, _ := enter(t, store, 9, trigger.Limits{PerMinute: 1, Burst: 3}); in != 3 {
		t.Errorf("with a smaller burst %d were let in, want 3", in)
	}
	pass("-1 hour") // the clock was set back: nothing is gained, and nothing lost
	if in, _ := enter(t, store, 2, slow); in != 0 {
		t.Errorf("after the clock was set back %d were let in, want 0", in)
	}
	pass("1 min")
	if in, _ := enter(t, store, 2, slow); in != 1 {
		t.Errorf("a minute after that %d were let in, want 1", in)
	}
	other := trigger.HookName{Namespace: "other", Name: "orders"}
	if answer, err := store.Enter(t.Context(), other, events.NewRunID(), slow); err != nil || answer != (trigger.Entrance{}) {
		t.Errorf("another namespace's gate: %+v, %v", answer, err)
	}
}

// Only the end of a run frees its place; or that its start was never stored.
func TestGate_PlacesOfWhatRunsAreKept(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	store := postgres.New(db.Open(t, role))
	limits := trigger.Limits{InFlight: 3}
	waiting, running, lost := delivery("waits to be announced"), delivery("runs"), delivery("never stored")
	for _, d := range []trigger.Delivery{waiting, running, lost} {
		if answer, err := store.Enter(t.Context(), gate, d.RunID, limits); err != nil || answer.Full {
			t.Fatalf("%+v, %v", answer, err)
		}
	}
	for _, d := range []trigger.Delivery{waiting, running} {
		if _, _, err := store.Insert(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Pool.Exec(t.Context(), `
		WITH started AS (
			INSERT INTO runner.journal (run_id, seq, kind, status, cause, inbound, worker, at, data)
			VALUES ($1, 1, 'run_started', 'queued', 'start:' || $1, true, 'test', clock_timestamp(), '{}')),
		landed AS (UPDATE trigger.announcements SET landed_at = clock_timestamp() WHERE run_id = $1)
		INSERT INTO runner.runs (run_id, namespace, kind, name, digest, status, seq, input, trigger, accepted_at)
		VALUES ($1, 'default', 'agent', 'check', 'd', 'running', 1, '{}', '{}', clock_timestamp())`, string(running.RunID)); err != nil {
		t.Fatal(err)
	}
	if in, last := enter(t, store, 2, limits); in != 0 || !last.Full {
		t.Errorf("%d were let in where three are in flight", in)
	}
	if _, err := db.Pool.Exec(t.Context(), `UPDATE trigger.places SET taken_at = taken_at - interval '1 hour'`); err != nil {
		t.Fatal(err)
	}
	if in, _ := enter(t, store, 3, limits); in != 1 {
		t.Errorf("an hour later %d were let in, want 1: in the place of what was never stored", in)
	}
	for i, want := range []int{1, 0} {
		if _, err := db.Pool.Exec(t.Context(), `UPDATE runner.runs SET ended_at = clock_timestamp()`); err != nil {
			t.Fatal(err)
		}
		if in, _ := enter(t, store, 3, limits); in != want {
			t.Errorf("%s: %d were let in, want %d", fmt.Sprintf("look %d after the end of one", i+1), in, want)
		}
	}
	if err := store.Leave(t.Context(), waiting.RunID); err != nil {
		t.Fatal(err)
	}
	if in, _ := enter(t, store, 2, limits); in != 1 {
		t.Errorf("after one was given back %d were let in, want 1", in)
	}
}
