package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// TestCrash kills processes where it hurts most. The tests follow one another:
// a killed process takes everybody's work with it. The database is behind PgBouncer.
func TestCrash(t *testing.T) {
	t.Parallel()
	d := deployPooled(t).runners(2)
	for _, tc := range []struct {
		name  string
		prove func(*testing.T, *deployment)
	}{
		{"G09 every service shares two connections", sharesConnections},
		{"C06 a runner in its model calls", killRunner},
		{"runners while runs wait under concurrency keys", killUnderKeys},
		{"trigger between commit and publish", killTrigger},
		{"approvals between commit and publish", killApprovals},
		{"approvals and a runner behind a yes to other arguments", killBehindAnEdit},
		{"both runners while a tool acts", killRunnersInAnAct},
		{"tools after an act with an honoured key", killToolsRetry},
		{"tools after an act that only a person can look up", killToolsAsk},
		{"tools between an acceptance and its result", killToolsAwaiting},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.prove(t, d) })
	}
}

// sharesConnections holds that no service has more sessions than the pooler gives it,
// while each process would open more by itself.
func sharesConnections(t *testing.T, d *deployment) {
	var runs []events.RunID
	for i := range 6 {
		runs = append(runs, d.startJob(t, job{Job: fmt.Sprintf("pooled-%d", i), Do: []string{"read", "pay"}}))
	}
	for _, id := range runs {
		d.runOf(t, id, events.StatusCompleted)
	}
	rows, err := d.db.Query(t.Context(), `SELECT usename, count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND usename LIKE 'holdfast\_%' GROUP BY usename`)
	if err != nil {
		t.Fatal(err)
	}
	sessions := map[string]int{}
	var role string
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&role, &n}, func() error { sessions[role] = n; return nil }); err != nil {
		t.Fatal(err)
	}
	for _, role := range []string{"holdfast_trigger", "holdfast_runner", "holdfast_tools", "holdfast_approvals", "holdfast_console"} {
		if n := sessions[role]; n < 1 || n > 2 {
			t.Errorf("%s has %d sessions, want one or two", role, n)
		}
	}
}

// claimed maps each runner process to the runs whose model call it makes.
func (d *deployment) claimed(t *testing.T, ids []events.RunID) map[string][]events.RunID {
	t.Helper()
	by := map[string][]events.RunID{}
	for _, id := range ids {
		var name string
		until(t, "a worker of run "+string(id), func() bool {
			r, err := d.operator.Run(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			name = d.runnerOf(t, r.Worker)
			return name != ""
		})
		by[name] = append(by[name], id)
	}
	return by
}

// runnerOf finds the process of a worker by its pid; "" when there is none.
func (d *deployment) runnerOf(t *testing.T, worker string) string {
	t.Helper()
	if worker == "" {
		return ""
	}
	pid := d.count(t, `SELECT coalesce((SELECT pid FROM runner.v_workers WHERE name = $1), 0)`, worker)
	for name := range d.plans {
		if p := d.process(name); p != nil && p.pid() == pid {
			return name
		}
	}
	return ""
}

// killRunner lets runs gather in their second model call, kills the runner that
// holds most of them, and looks at each: it goes on at the next row, on the
// other runner, soon, and only the call in flight is made again.
func killRunner(t *testing.T, d *deployment) {
	const n = 8
	var jobs []job
	var holds []*hold
	var ids []events.RunID
	for i := range n {
		j := job{Job: fmt.Sprintf("kill-runner-%d", i), Do: []string{"read", "pay"}}
		holds = append(holds, d.out.hold(t, j.Job, 1))
		ids = append(ids, d.startJob(t, j))
		jobs = append(jobs, j)
	}
	for _, h := range holds {
		h.wait(t)
	}
	by := d.claimed(t, ids)
	victim := "runner-1"
	if len(by["runner-2"]) > len(by["runner-1"]) {
		victim = "runner-2"
	}
	lost := map[events.RunID]int64{}
	for _, id := range by[victim] {
		r, err := d.operator.Run(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		lost[id] = r.Seq
	}
	if len(lost) == 0 {
		t.Fatalf("nobody to kill: %v", by)
	}
	d.seenAlive(t, 2) // only who is fresh sees that another is dead
	at := d.process(victim).kill(t)
	var slowest time.Duration
	for i, id := range ids {
		if _, ok := lost[id]; ok {
			asked := holds[i].wait(t).Arrived // again
			var taken time.Time
			if err := d.db.QueryRow(t.Context(), `SELECT claim_at FROM runner.v_runs WHERE run_id = $1`, string(id)).Scan(&taken); err != nil {
				t.Fatal(err)
			}
			slowest = max(slowest, asked.Sub(taken))
		}
		holds[i].release()
	}
	var worst time.Duration
	for i, id := range ids {
		seq, wasLost := lost[id]
		again := 0
		if wasLost {
			again = 1
		}
		journal := d.finished(t, id, jobs[i], again)
		if !wasLost {
			continue
		}
		next := journal[seq]
		if next.Seq != seq+1 || next.Kind != events.FactModelAnswered || d.runnerOf(t, next.Worker) == victim {
			t.Errorf("run %s went on with row %d, %s by %s, want %d, an answer of another worker", id, next.Seq, next.Kind, next.Worker, seq+1)
		}
		took := next.At.Sub(at)
		worst = max(worst, took)
		if took <= 0 || took > 5*time.Second {
			t.Errorf("run %s went on %s after the kill, want at most 5 s", id, took)
		}
	}
	t.Logf("%d of %d runs were taken over, the last went on after %s; from a new claim to its request %s at most",
		len(lost), n, worst.Round(time.Millisecond), slowest.Round(time.Millisecond))
	if slowest > time.Second {
		t.Errorf("the model was asked %s after the claim, want less than a second", slowest)
	}
	d.start(victim)
}

// killTools starts a job whose act kills the tools process right after it.
func (d *deployment) killTools(t *testing.T, j job) events.RunID {
	t.Helper()
	d.process("tools").term(t)
	armed := d.armed("tools", "tools.acted["+j.Job+"]=kill")
	id := d.startJob(t, j)
	armed.ended(t)
	if n := len(d.out.of(j.Do[0], j.Job)); n != 1 {
		t.Fatalf("%d acts before the kill", n)
	}
	if n := d.count(t, `SELECT count(*) FROM tools.v_effects WHERE run_id = $1 AND state = 'intent'`, string(id)); n != 1 {
		t.Fatalf("%d intents are recorded before the act", n)
	}
	d.start("tools")
	return id
}

// killRunnersInAnAct leaves nobody who could hear the tool's answer.
func killRunnersInAnAct(t *testing.T, d *deployment) {
	j := job{Job: "kill-runners-act", Do: []string{"send"}}
	h := d.out.holdAct(t, j.Job)
	id := d.startJob(t, j)
	until(t, "the shop to be asked", func() bool { return len(d.out.of("send", j.Job)) == 1 })
	for _, name := range []string{"runner-1", "runner-2"} {
		d.process(name).kill(t)
	}
	h.release()
	until(t, "the effect to be recorded", func() bool {
		return d.count(t, `SELECT count(*) FROM tools.v_effects WHERE run_id = $1 AND state = 'succeeded'`, string(id)) == 1
	})
	d.start("runner-1")
	d.start("runner-2")
	d.finished(t, id, j, 0)
}

func killToolsRetry(t *testing.T, d *deployment) {
	j := job{Job: "kill-tools-retry", Do: []string{"pay"}}
	d.finished(t, d.killTools(t, j), j, 0)
	all := d.out.of("pay", j.Job)
	if len(all) != 2 || all[0].key != all[1].key || all[0].key == "" {
		t.Errorf("the shop was asked with %+v, want twice with one key", all)
	}
}

func killToolsAsk(t *testing.T, d *deployment) {
	j := job{Job: "kill-tools-ask", Do: []string{"send"}}
	id := d.killTools(t, j)
	doubt := d.approval(t, id, events.ApprovalDoubt)
	if n := d.count(t, `SELECT count(*) FROM tools.v_effects WHERE state = 'unknown'`); n != 1 {
		t.Errorf("%d effects are in doubt, want 1", n)
	}
	out, bad, code := d.cli(t, "effects", "list", "--state", "unknown", "--run", string(id), "--json")
	var page client.Page[client.Effect]
	if err := json.Unmarshal([]byte(out), &page); code != 0 || err != nil || len(page.Items) != 1 {
		t.Fatalf("exit %d, %v: %s%s", code, err, out, bad)
	}
	if out, bad, code = d.cli(t, "effects", "resolve", page.Items[0].EffectID, "happened", "--result", `{"receipt":"seen in the shop"}`); code != 0 {
		t.Fatalf("exit %d: %s%s", code, out, bad)
	}
	d.finished(t, id, j, 0)
	if n := len(d.out.of("send", j.Job)); n != 1 {
		t.Errorf("the shop was asked %d times", n)
	}
	if n := d.count(t, `SELECT count(*) FROM tools.v_effects WHERE state = 'unknown'`); n != 0 {
		t.Errorf("%d effects are still in doubt", n)
	}
	// The question that it made superfluous is gone.
	until(t, "the question to be closed", func() bool {
		a, err := d.approver.Approval(t.Context(), doubt.ApprovalID)
		return err == nil && a.State != "pending"
	})
}

// killTrigger loses the answer of an accepted start: the sender does not know
// that it counts, and its repeat changes nothing.
func killTrigger(t *testing.T, d *deployment) {
	d.process("trigger").term(t)
	armed := d.armed("trigger", "trigger.committed=kill")
	j := job{Job: "kill-trigger", Do: []string{"pay"}}
	_, err := d.once(t).Start(t.Context(), client.StartRequest{Agent: "clerk", Input: j.input(), IdempotencyKey: j.Job})
	if client.StatusOf(err) != http.StatusServiceUnavailable {
		t.Fatalf("the killed trigger answered %v, want 503 from the edge", err)
	}
	armed.ended(t)
	var id string
	if err := d.db.QueryRow(t.Context(), `SELECT run_id FROM trigger.v_deliveries WHERE input->>'job' = $1`, j.Job).Scan(&id); err != nil {
		t.Fatalf("the start is not committed: %v", err)
	}
	d.start("trigger")
	d.finished(t, events.RunID(id), j, 0) // although nobody has asked again
	again, err := d.once(t).Start(t.Context(), client.StartRequest{Agent: "clerk", Input: j.input(), IdempotencyKey: j.Job})
	if err != nil || string(again.RunID) != id || !again.Replayed {
		t.Errorf("the repeat started %+v, %v, want run %s", again, err, id)
	}
	d.finished(t, events.RunID(id), j, 0)
}

func killApprovals(t *testing.T, d *deployment) {
	d.process("approvals").term(t)
	armed := d.armed("approvals", "approvals.committed=kill")
	j := job{Job: "kill-approvals", Do: []string{"order"}}
	id := d.startJob(t, j)
	question := d.approval(t, id, events.ApprovalAction)
	yes := client.Decision{Decision: "approve", Digest: question.Digest}
	if _, err := d.once(t).Decide(t.Context(), question.ApprovalID, yes); client.StatusOf(err) != http.StatusServiceUnavailable {
		t.Fatalf("the killed service answered %v, want 503 from the edge", err)
	}
	armed.ended(t)
	d.start("approvals")
	d.finished(t, id, j, 0) // the decision counts, although nobody was told
	again, err := d.once(t).Decide(t.Context(), question.ApprovalID, yes)
	if err != nil || !again.Repeated || again.State != events.Approve {
		t.Errorf("the repeat: %+v, %v", again, err)
	}
	if n := d.count(t, `SELECT count(*) FROM runner.v_events WHERE run_id = $1 AND kind = $2`, string(id), events.FactApprovalDecided); n != 1 {
		t.Errorf("the run took %d decisions, want 1", n)
	}
}
