package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console/httpapi"
)

type bulkAnswer struct {
	DryRun  bool              `json:"dry_run"`
	Runs    []httpapi.BulkRun `json:"runs"`
	Unclear int               `json:"unclear"`
	Problem string            `json:"problem"`
}

func (r *rig) bulk(body string, header ...string) bulkAnswer {
	r.t.Helper()
	status, _, raw := r.do("POST", "/v1/runs/commands", doortest.Token(authn.Operator), body, header...)
	var out bulkAnswer
	if err := json.Unmarshal([]byte(raw), &out); status != 200 || err != nil {
		r.t.Fatalf("%s: %d %s", body, status, raw)
	}
	return out
}

// many makes n runs of an agent in a status.
func (r *rig) many(n int, namespace, agent, status string) {
	r.t.Helper()
	r.exec(`INSERT INTO runner.runs (run_id, namespace, kind, name, digest, status, seq, input, labels, trigger, accepted_at, ended_at, error, waiting)
		SELECT gen_random_uuid()::text, $2, 'agent', $3, 'sha256:x', $4, 1, '{}', jsonb_build_object('n', g::text), '{"kind":"api"}', clock_timestamp() - interval '2 h',
			CASE WHEN $4 IN ('completed', 'failed') THEN clock_timestamp() END, CASE WHEN $4 = 'needs_attention' THEN '{"code":"auth","message":"no key"}'::json END, ''
		FROM generate_series(1, $1) g`, n, namespace, agent, status)
}

func (r *rig) number(sql string) (n int64) {
	r.t.Helper()
	if err := r.db.QueryRow(r.t.Context(), sql).Scan(&n); err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// Five hundred parked runs go on with one request: each of them gets one
// command, and nobody else does.
func TestBulk_FiveHundredParkedRuns(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.many(500, "default", "pricing", "needs_attention")
	r.many(20, "default", "pricing", "waiting")
	r.many(20, "default", "other", "needs_attention")
	r.many(20, "elsewhere", "pricing", "needs_attention")
	r.many(20, "default", "pricing", "failed")
	where := `status==\"needs_attention\" && agent==\"pricing\" && error.code==\"auth\" && age > 3600`

	if dry := r.bulk(`{"command":"resume","dry_run":true,"where":"` + where + `"}`); len(dry.Runs) != 500 || !dry.DryRun || dry.Runs[0].CommandID != "" {
		t.Fatalf("a dry run finds %d runs", len(dry.Runs))
	}
	if n := r.number("SELECT count(*) FROM console.commands"); n != 0 {
		t.Fatalf("a dry run sent %d commands", n)
	}
	begun := time.Now()
	body := `{"command":"resume","reason":"the key is back","where":"` + where + `"}`
	done := r.bulk(body, "Idempotency-Key", "night")
	t.Logf("500 commands took %s", time.Since(begun).Round(time.Millisecond))
	seen := map[events.RunID]string{}
	for _, run := range done.Runs {
		seen[run.RunID] = run.CommandID
	}
	if len(seen) != 500 || done.Unclear != 0 {
		t.Errorf("%d runs, %d unclear: %s", len(seen), done.Unclear, done.Problem)
	}
	if n := r.number(`SELECT count(*) FROM console.commands c JOIN runner.runs r USING (run_id) WHERE c.kind = 'resume' AND r.name = 'pricing' AND r.status = 'needs_attention'
		AND r.namespace = 'default' AND c.body->>'reason' = 'the key is back' AND c.principal <> ''`); n != 500 {
		t.Errorf("%d commands as ordered, want 500", n)
	}
	again := r.bulk(body, "Idempotency-Key", "night")
	for _, run := range again.Runs {
		if !run.Replayed || seen[run.RunID] != run.CommandID {
			t.Fatalf("the repeat gave run %s command %s, want %s", run.RunID, run.CommandID, seen[run.RunID])
		}
	}
	if n := r.number("SELECT count(*) FROM console.commands"); n != 500 {
		t.Errorf("%d commands after the repeat, want 500", n)
	}
	if status, _, raw := r.do("POST", "/v1/runs/commands", doortest.Token(authn.Operator), strings.Replace(body, "resume", "cancel", 1), "Idempotency-Key", "night"); status != 409 || !strings.Contains(raw, httpapi.CodeKeyReused) {
		t.Errorf("another command under the key: %d %s", status, raw)
	}
	eventually(t, "the commands to be announced", func() bool {
		return r.number("SELECT count(*) FROM console.commands WHERE announced_at IS NOT NULL") == 500
	})
}

// What cannot be decided is told and gets nothing; too many are refused as a
// whole; who ended meanwhile is left alone.
func TestBulk_Refusals(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.many(3, "default", "shop", "waiting")
	for body, want := range map[string]string{
		`{"command":"resume","where":"stat == \"waiting\""}`:                               `did you mean \"status\"`,
		`{"command":"resume","where":"1 + 1"}`:                                             "must be true or false",
		`{"command":"resume","where":" "}`:                                                 "CEL",
		`{"command":"raise_budget","where":"true"}`:                                        "command",
		`{"command":"cancel","where":"true","max":20000}`:                                  "max",
		`{"command":"cancel","where":"true","reason":"` + strings.Repeat("x", 1001) + `"}`: "reason",
	} {
		if status, _, raw := r.do("POST", "/v1/runs/commands", doortest.Token(authn.Operator), body); status != 422 || !strings.Contains(raw, want) {
			t.Errorf("%s: %d %s, want 422 with %s", body, status, raw, want)
		}
	}
	if status, _, raw := r.do("POST", "/v1/runs/commands", doortest.Token(authn.Operator), `{"command":"cancel","where":"true","max":2}`); status != 409 || !strings.Contains(raw, "more than 2 runs fit") {
		t.Errorf("too many: %d %s", status, raw)
	}
	unclear := r.bulk(`{"command":"cancel","where":"labels.shop == \"7\" || labels.n == \"2\""}`)
	if len(unclear.Runs) != 1 || unclear.Unclear != 2 || !strings.Contains(unclear.Problem, "no such key") {
		t.Errorf("unclear: %+v", unclear)
	}
	if n := r.number("SELECT count(*) FROM console.commands"); n != 1 {
		t.Errorf("%d commands, want 1", n)
	}
}

// A run that ends between the look and the command gets none.
func TestBulk_EndedMeanwhile(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.many(2, "default", "shop", "waiting")
	lock, err := r.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Rollback(context.WithoutCancel(t.Context())) }()
	// The insert waits behind the lock while the run ends.
	if _, err := lock.Exec(t.Context(), `LOCK TABLE console.commands IN EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	answer := make(chan bulkAnswer, 1)
	go func() { answer <- r.bulk(`{"command":"pause","where":"status == \"waiting\""}`) }()
	eventually(t, "the insert to wait", func() bool {
		return r.number(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%INSERT INTO console.commands%'`) > 0
	})
	r.exec(`UPDATE runner.runs SET status = 'completed', ended_at = clock_timestamp() WHERE labels->>'n' = '1'`)
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := <-answer
	var commanded []string
	for _, run := range got.Runs {
		if run.CommandID != "" {
			commanded = append(commanded, fmt.Sprint(r.number(`SELECT (labels->>'n')::bigint FROM runner.runs WHERE run_id = '`+string(run.RunID)+`'`)))
		}
	}
	if len(got.Runs) != 2 || strings.Join(commanded, " ") != "2" {
		t.Errorf("%d runs fitted, commanded %v; want only the one that is open", len(got.Runs), commanded)
	}
}
