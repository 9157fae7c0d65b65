package e2e

import (
	"net/http"
	"slices"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// leftOfRun counts, by who keeps it, what a run has beyond one slice of its deletion.
var leftOfRun = map[string]string{
	"runner":    `SELECT count(*) FROM runner.journal WHERE run_id = $1`,
	"trigger":   `SELECT count(*) FROM trigger.signals WHERE run_id = $1 AND data::text <> 'null'`,
	"tools":     `SELECT count(*) FROM tools.calls WHERE run_id = $1`,
	"approvals": `SELECT count(*) FROM approvals.notices WHERE run_id = $1`,
	"console":   `SELECT count(*) FROM console.commands WHERE run_id = $1`,
}

// more gives a run more rows than one slice takes.
var more = []string{
	`INSERT INTO runner.journal (run_id, seq, kind, status, cause, inbound, worker, at, data)
		SELECT $1::text, 1000 + n, 'late_result', 'completed', 'late' || n, true, 'w', clock_timestamp(), '{}' FROM generate_series(1, 1200) n`,
	`INSERT INTO trigger.signals (signal_id, namespace, name, key, data, source_kind, source_name, request_digest, expires_at, state, run_id, item)
		SELECT gen_random_uuid(), 'default', 'paid', 'k', '{}', 'api', 'a', 'd', clock_timestamp() + interval '1 h', 'taken', $1::text, 'signal/' || n FROM generate_series(1, 1200) n`,
	`INSERT INTO tools.calls (call_id, run_id, namespace, tool, tool_digest, pool, args, args_digest, minted_key, key, status)
		SELECT $1::text || '-x' || n, $1, 'default', 'read', 'd', 'default', '{}', 'd', 'k', 'k', 'succeeded' FROM generate_series(1, 1200) n`,
	`INSERT INTO approvals.notices (notice_id, namespace, channel, reason, run_id, body, state, next_at)
		SELECT 'n' || n, 'default', 'ops', 'failed', $1::text, '{}', 'failed', NULL FROM generate_series(1, 1200) n`,
	`INSERT INTO console.commands (id, namespace, run_id, kind, body, principal, landed_at)
		SELECT 'm' || n, 'default', $1::text, 'message', '{}', 'p', clock_timestamp() FROM generate_series(1, 1200) n`,
}

// deleteUnderKills loses each process that deletes what is left of a run between two of
// its slices. The next one goes on, all of it goes and nothing comes back.
func deleteUnderKills(t *testing.T, d *deployment) {
	j, other := job{Job: "deleted", Do: []string{"pay", "order"}}, job{Job: "not-deleted", Do: []string{"pay"}}
	id, stays := d.startJob(t, j), d.startJob(t, other)
	until(t, "a yes", func() bool { return d.sayYes(t, id) })
	d.finished(t, id, j, 0)
	d.finished(t, stays, other, 0)
	for _, sql := range more {
		if _, err := d.db.Exec(t.Context(), sql, string(id)); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	for _, name := range []string{"runner-2", "runner-1", "trigger", "tools", "approvals"} {
		d.process(name).term(t)
	}
	if out, bad, code := d.cli(t, "runs", "delete", string(id), "--reason", "asked for"); code != 0 {
		t.Fatalf("exit %d: %s%s", code, out, bad)
	}
	d.process("console").term(t)
	left := func(service string) int { return d.count(t, leftOfRun[service], string(id)) }
	for _, tc := range []struct{ service, process, point string }{
		{"runner", "runner-1", "runner.purged"},
		{"trigger", "trigger", "trigger.forgot"},
		{"tools", "tools", "tools.forgot"},
		{"approvals", "approvals", "approvals.forgot"},
		{"console", "console", "console.forgot"},
	} {
		t.Run(tc.point, func(t *testing.T) {
			d.run(tc.process, "HOLDFAST_FAILPOINTS="+tc.point+"=kill").ended(t)
			if n := left(tc.service); n == 0 || n > 300 {
				t.Errorf("%d rows are left behind one slice", n)
			}
		})
	}
	d.start("runner-1", "runner-2", "trigger", "tools", "approvals", "console")
	until(t, "all of it to be gone", func() bool {
		for service := range leftOfRun {
			if left(service) > 0 {
				return false
			}
		}
		return d.count(t, `SELECT count(*) FROM runner.v_deleted WHERE run_id = $1 AND purged_at IS NOT NULL AND reason = 'asked for'`, string(id)) == 1 &&
			d.count(t, `SELECT count(*) FROM console.v_deletions`) == 0
	})
	// The sender repeats its start, which is the same run and begins none; the stream of
	// events has nothing of it, and what was done stays known.
	again, err := d.operator.Start(t.Context(), client.StartRequest{Agent: "clerk", Input: j.input(), IdempotencyKey: j.Job})
	if err != nil || again.RunID != id || !again.Replayed {
		t.Errorf("the repeat started %+v, %v, want run %s", again, err, id)
	}
	next := job{Job: "behind-a-deletion", Do: []string{"pay"}}
	d.finished(t, d.startJob(t, next), next, 0) // whatever lay in the streams before it has been read
	if _, err := d.operator.Run(t.Context(), id); client.StatusOf(err) != http.StatusGone {
		t.Errorf("the deleted run reads as %v, want 410", err)
	}
	if n := d.count(t, `SELECT count(*) FROM runner.v_runs WHERE run_id = $1`, string(id)); n != 0 {
		t.Error("the run is back")
	}
	for service := range leftOfRun {
		if n := left(service); n != 0 {
			t.Errorf("%d rows of %s are back", n, service)
		}
	}
	if n := d.count(t, `SELECT count(*) FROM tools.v_effects WHERE run_id = $1 AND state = 'succeeded'`, string(id)); n != 2 {
		t.Errorf("%d effects are in the ledger, want 2", n)
	}
	if subjects := d.eventsOf(t, id, stays); !slices.Equal(subjects, []string{events.RunEventSubject(stays)}) {
		t.Errorf("the stream of events has %v, want the run that stays", subjects)
	}
	d.runOf(t, stays, events.StatusCompleted)
}

// eventsOf returns the subjects under which the stream of events still has some of the runs.
func (d *deployment) eventsOf(t *testing.T, runs ...events.RunID) (found []string) {
	t.Helper()
	nc := d.nats(t)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	st, err := js.Stream(t.Context(), events.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range runs {
		info, err := st.Info(t.Context(), jetstream.WithSubjectFilter(events.RunEventSubject(id)))
		if err != nil {
			t.Fatal(err)
		}
		for subject := range info.State.Subjects {
			found = append(found, subject)
		}
	}
	return found
}
