package httpapi_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/services/console/httpapi"
)

type checkup struct {
	Findings []httpapi.Finding `json:"findings"`
	At       time.Time         `json:"at"`
}

// The doctor counts what is open in the namespace, and nothing of another one.
func TestDoctor_Counts(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.exec(`INSERT INTO runner.workers (name, beat, fresh_since) VALUES ('r1', clock_timestamp() + interval '1 h', now())`)
	r.exec(`INSERT INTO tools.workers (name, beat, fresh_since) VALUES ('t1', clock_timestamp() + interval '1 h', now())`)
	if got := get[checkup](r, "GET", "/v1/doctor", authn.Viewer, ""); len(got.Findings) != 0 {
		t.Errorf("of an empty system it says %+v", got.Findings)
	}
	for _, namespace := range []string{"default", "elsewhere"} {
		r.many(3, namespace, "shop", "needs_attention")
		r.many(2, namespace, "shop", "paused")
		r.many(4, namespace, "shop", "running")
		r.many(5, namespace, "shop", "failed")
		r.exec(`UPDATE runner.runs SET paused_for = 'pool:night' WHERE status = 'paused' AND labels->>'n' = '1'`)
		r.exec(`UPDATE runner.runs SET claim_worker = CASE labels->>'n' WHEN '1' THEN 'r1' ELSE 'dead' END, claim_at = clock_timestamp() - interval '2 min' WHERE status = 'running' AND labels->>'n' IN ('1', '2')`)
		r.exec(`UPDATE runner.runs SET min_reader = 99 WHERE status = 'running' AND labels->>'n' = '3'`)
		r.exec(`INSERT INTO runner.pending (run_id, namespace, item, kind, since) SELECT run_id, namespace, 'model', 'model', clock_timestamp() - CASE labels->>'n' WHEN '3' THEN interval '10 s' ELSE interval '2 min' END
			FROM runner.runs WHERE namespace = $1 AND (status = 'running' OR status = 'paused')`, namespace)
		id := r.accept(namespace, "shop", `{}`)
		r.exec(`UPDATE trigger.deliveries SET accepted_at = clock_timestamp() - interval '2 min' WHERE run_id = $1`, id)
		r.accept(namespace, "shop", `{}`) // just now
		for i, n := range []struct{ state, age string }{{"failed", "1 d"}, {"failed", "1 d"}, {"unknown", "6 d"}, {"unknown", "8 d"}, {"gone", "1 d"}} {
			r.exec(`INSERT INTO approvals.notices (notice_id, namespace, channel, reason, body, state, next_at, created_at) VALUES ($1, $2, 'ops', 'failed', '{}', $3, NULL, clock_timestamp() - $4::text::interval)`,
				fmt.Sprint("n-", namespace, i), namespace, n.state, n.age)
		}
		r.exec(`INSERT INTO console.commands (id, namespace, run_id, kind, body, principal, created_at, next_announce_at) VALUES ($1, $2, 'x', 'pause', '{}', 'p', clock_timestamp() - interval '2 min', 'infinity')`, "c-"+namespace, namespace)
	}
	r.exec(`INSERT INTO runner.rejected (subject, cause, code, detail, body) SELECT 'hf.run.x', 'c', 'decode', 'd', '' FROM generate_series(1, 6)`)
	r.exec(`INSERT INTO runner.rejected (subject, cause, code, detail, body, at) VALUES ('hf.run.x', 'c', 'decode', 'd', '', clock_timestamp() - interval '2 days')`)
	var got []string
	for _, f := range get[checkup](r, "GET", "/v1/doctor", authn.Viewer, "").Findings {
		got = append(got, fmt.Sprintf("%s %d", f.Code, f.Count))
		if f.Since == nil {
			t.Errorf("%s does not say since when", f.Code)
		}
	}
	slices.Sort(got)
	want := []string{"failed_notices 2", "newer_runs 1", "orphans 1", "parked_runs 3", "paused_runs 1", "paused_runs 1", "rejected_messages 6", "unasked_calls 1", "unknown_notices 1", "unlanded_commands 1", "untaken_starts 1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}
