package postgres_test

import (
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/services/trigger"
	"github.com/holdfast-run/holdfast/services/trigger/postgres"
)

// A start whose run was deleted says nothing any more and is still known by its key: a
// repeat is the same run, until the start is old itself.
func TestForget_ARepeatIsStillTheSameRun(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool := db.Open(t, role)
	store := postgres.New(pool)
	d, other := delivery("evt_1"), delivery("evt_2")
	for _, x := range []trigger.Delivery{d, other} {
		if _, ok, err := store.Insert(t.Context(), x); err != nil || !ok {
			t.Fatalf("%v %v", ok, err)
		}
	}
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := db.Pool.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	count := func(sql string, args ...any) (n int) {
		t.Helper()
		if err := db.Pool.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	exec(`INSERT INTO blob.blobs (scope, digest, data) VALUES ('delivery:' || $1::text, 'sha256:' || repeat('a', 64), 'x')`, string(d.ID))
	exec(`INSERT INTO trigger.signals (signal_id, namespace, name, key, data, source_kind, source_name, request_digest, expires_at, state, run_id, item)
		SELECT gen_random_uuid(), 'default', 'paid', 'k', '{"who":"me"}', 'api', 'a', 'd', clock_timestamp() + interval '1 h', s, $1, 'signal/' || s FROM unnest(ARRAY['sent', 'taken']) s`, string(d.RunID))
	exec(`INSERT INTO trigger.fires (namespace, schedule, nominal, fold, due_at, digest, run_id, state) VALUES ('default', 's', '2026-01-01T00:00', 0, clock_timestamp(), 'd', $1, 'started')`, string(d.RunID))
	exec(`INSERT INTO trigger.places (run_id, namespace, webhook) VALUES ($1, 'default', 'orders')`, string(d.RunID))
	exec(`INSERT INTO runner.deleted (run_id, n, root_run_id, namespace, kind, name, status, ended_at, deleted_by) VALUES ($1, 1, $1, 'default', 'agent', 'a', 'completed', clock_timestamp(), 'op')`, string(d.RunID))
	for i := 0; ; i++ {
		n, err := pg.ForgetSlice(t.Context(), pool, "trigger", 1)
		if err != nil || i > 20 {
			t.Fatalf("slice %d: %v", i, err)
		}
		if n == 0 {
			break
		}
	}
	again := d
	again.ID, again.RunID = other.ID, other.RunID
	stored, inserted, err := store.Insert(t.Context(), again)
	if err != nil || inserted || stored.RunID != d.RunID || string(stored.Input) != "null" || len(stored.Labels) != 0 {
		t.Errorf("a repeat: inserted %v, run %s, input %s, %v; want the run that was deleted, and nothing of what it said", inserted, stored.RunID, stored.Input, err)
	}
	for what, sql := range map[string]string{
		"bytes of the input":            `SELECT count(*) FROM blob.blobs`,
		"announcements that are owed":   `SELECT count(*) FROM trigger.announcements WHERE landed_at IS NULL AND run_id = '` + string(d.RunID) + `'`,
		"fires that count as open":      `SELECT count(*) FROM trigger.fires WHERE ended_at IS NULL`,
		"places that are taken":         `SELECT count(*) FROM trigger.places`,
		"signals on their way":          `SELECT count(*) FROM trigger.signals WHERE state = 'sent'`,
		"taken signals with data":       `SELECT count(*) FROM trigger.signals WHERE state = 'taken' AND data::text <> 'null'`,
		"kept signals without data":     `SELECT count(*) FROM trigger.signals WHERE state = 'kept' AND (data::text <> '{"who":"me"}' OR run_id IS NOT NULL)`,
		"other starts that were spoilt": `SELECT count(*) FROM trigger.deliveries WHERE run_id = '` + string(other.RunID) + `' AND (input::text = 'null' OR forgotten_at IS NOT NULL)`,
	} {
		if n := count(sql); n != 0 {
			t.Errorf("%d %s", n, what)
		}
	}
	if n, err := store.SweepStarts(t.Context(), time.Hour, 10); n != 0 || err != nil {
		t.Errorf("a start that was emptied just now: %d swept, %v", n, err)
	}
	exec(`UPDATE trigger.deliveries SET forgotten_at = forgotten_at - interval '2 h' WHERE forgotten_at IS NOT NULL`)
	if n, err := store.SweepStarts(t.Context(), time.Hour, 10); n != 1 || err != nil {
		t.Errorf("an old start: %d swept, %v", n, err)
	}
	if n := count(`SELECT count(*) FROM trigger.deliveries`); n != 1 {
		t.Errorf("%d starts are left, want the other one", n)
	}
}
