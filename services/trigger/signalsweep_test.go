package trigger_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Signals that are over are forgotten when their retention has passed, and no others:
// one that is kept, held or on its way to a run is a promise, however old it is.
func TestSignal_OldOnesAreSwept(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.start(t)
	insert := `INSERT INTO trigger.signals (signal_id, namespace, name, key, data, source_kind, source_name, request_digest, state, held, run_id, item, received_at, expires_at, taken_at, next_announce_at)
		SELECT gen_random_uuid(), 'default', n, 'k', '{}', 'api', 'op', 'd', state, held, CASE WHEN state IN ('sent', 'taken') THEN 'r' END, CASE WHEN state IN ('sent', 'taken') THEN 'signal/' || n END,
			clock_timestamp() - interval '60 d', expires, taken, 'infinity'
		FROM (VALUES
			('taken-old', 'taken', false, clock_timestamp() - interval '50 d', clock_timestamp() - interval '31 d'),
			('taken-late', 'taken', false, clock_timestamp() - interval '50 d', clock_timestamp() - interval '29 d'),
			('expired-old', 'expired', false, clock_timestamp() - interval '31 d', NULL),
			('expired-late', 'expired', false, clock_timestamp() - interval '29 d', NULL),
			('sent', 'sent', false, clock_timestamp() - interval '50 d', NULL),
			('held', 'kept', true, clock_timestamp() - interval '50 d', NULL),
			('kept', 'kept', false, clock_timestamp() + interval '1 d', NULL)) AS v(n, state, held, expires, taken)`
	w.exec(t, insert)
	if err := r.svc.SweepSignals(t.Context()); err != nil {
		t.Fatal(err)
	}
	rows, err := w.db.Pool.Query(t.Context(), `SELECT name FROM trigger.signals ORDER BY name`)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		got = append(got, name)
	}
	if diff := cmp.Diff([]string{"expired-late", "held", "kept", "sent", "taken-late"}, got); diff != "" || rows.Err() != nil {
		t.Errorf("signals that are left (-want +got):\n%s%v", diff, rows.Err())
	}
}
