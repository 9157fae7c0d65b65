package e2e

import (
	"bufio"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// tellsWhatNobodyTakes is C08's "queued but not picked up", of a start that is there
// before any runner and of a model call for which the only one has no slot: the doctor,
// a metric and the run itself say so, and both go on when somebody comes.
func (d *deployment) tellsWhatNobodyTakes(t *testing.T, id events.RunID, early job) {
	t.Helper()
	d.age(t, `UPDATE trigger.deliveries SET accepted_at = accepted_at - interval '2 min' WHERE run_id = $1`, id)
	d.findings(t, "no_worker", "untaken_starts")
	d.saysOf(t, id, "queued: no runner has taken it for 2 min; no runner is alive")
	until(t, "the metric of the starts that nobody has", func() bool { return d.metric(t, "trigger", "holdfast_trigger_backlog_age_seconds") >= 120 })

	d.plan("narrow", "runner")
	d.run("narrow", "HOLDFAST_RUNNER_MODEL_SLOTS=1").ready(t)
	d.finished(t, id, early, 0)
	busy, behind := job{Job: "busy", Do: []string{}}, job{Job: "behind-it", Do: []string{}}
	h := d.out.hold(t, busy.Job, 0)
	first := d.startJob(t, busy)
	h.wait(t)
	second := d.startJob(t, behind)
	until(t, "a call that waits", func() bool {
		return d.count(t, `SELECT count(*) FROM runner.v_pending WHERE run_id = $1 AND kind = 'model'`, string(second)) == 1
	})
	d.age(t, `UPDATE runner.pending SET since = since - interval '2 min' WHERE run_id = $1`, second)
	d.findings(t, "unasked_calls")
	d.saysOf(t, second, "queued: no runner has taken its model call for 2 min")
	h.release()
	d.finished(t, first, busy, 0)
	d.finished(t, second, behind, 0)
	d.process("narrow").term(t)
}

func (d *deployment) age(t *testing.T, sql string, id events.RunID) {
	t.Helper()
	if tag, err := d.db.Exec(t.Context(), sql, string(id)); err != nil || tag.RowsAffected() != 1 {
		t.Fatalf("%s: %v, %v", sql, tag, err)
	}
}

// findings demands that the doctor finds these, whatever else it finds.
func (d *deployment) findings(t *testing.T, codes ...string) {
	t.Helper()
	c, err := d.operator.Doctor(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]client.Finding{}
	for _, f := range c.Findings {
		found[f.Code] = f
	}
	for _, code := range codes {
		if f, ok := found[code]; !ok || f.Next == "" || code != "no_worker" && f.Count != 1 {
			t.Errorf("of %s the doctor says %+v, of all %+v", code, f, c.Findings)
		}
	}
}

// saysOf demands a sentence of why and of what an operator reads of the run.
func (d *deployment) saysOf(t *testing.T, id events.RunID, sentence string) {
	t.Helper()
	for _, what := range []string{"why", "get"} {
		if out, bad, code := d.cli(t, "runs", what, string(id)); code != 0 || !strings.Contains(out, sentence) {
			t.Errorf("runs %s: exit %d %s%s, want %q", what, code, out, bad, sentence)
		}
	}
}

// metric is a value that a process shows; 0 when it shows none.
func (d *deployment) metric(t *testing.T, name, series string) float64 {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+d.process(name).health+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), series+" "); ok {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	return 0
}
