package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// prompt is a schedule whose runs may overlap.
const prompt = `apiVersion: holdfast/v1
kind: Schedule
metadata: {name: prompt}
spec: {cron: "0 2 * * *", agent: clerk, overlap: allow, input: {job: "by-schedule", do: []}}
`

// TestStarts_NATSLosesItsData has no runner while 100 starts are answered by two
// trigger processes; then NATS is killed and its data are deleted. When NATS and
// runners come, there are exactly the 100 runs that were answered, and each ends.
func TestStarts_NATSLosesItsData(t *testing.T) {
	t.Parallel()
	const starts = 100
	d := deployOn(t, servers{database: fresh(t), anybody: true}) // announced before there ever was a runner
	second := free(t)
	d.plan("trigger-2", "trigger", "--listen", second)
	d.start("trigger-2")
	if _, err := d.admin.Apply(t.Context(), []client.Document{{File: "prompt.yaml", Text: prompt}}); err != nil {
		t.Fatal(err)
	}
	// Webhooks, the API and "run now", half of each at either process.
	send := func(i int) (answer, error) {
		server := []string{d.edge, "http://" + second}[i/3%2]
		name := fmt.Sprintf("lost-%d", i)
		input := job{Job: name, Do: []string{}}.input()
		switch i % 3 {
		case 0:
			return trySendTo(t, server, http.MethodPost, "/hooks/jobs", "", input, d.signature("msg_"+name, input))
		case 1:
			return trySendTo(t, server, http.MethodPost, "/v1/agents/clerk/runs", d.token, []byte(`{"input":`+string(input)+`}`), map[string]string{"Idempotency-Key": name})
		}
		return trySendTo(t, server, http.MethodPost, "/v1/schedules/prompt/trigger", d.token, nil, map[string]string{"Idempotency-Key": name})
	}
	ids := make([]events.RunID, starts)
	all := func(check func(i int, a answer)) {
		t.Helper()
		next := make(chan int)
		var senders sync.WaitGroup
		for range 8 {
			senders.Go(func() {
				for i := range next {
					a, err := send(i)
					if err != nil {
						t.Error(err)
						continue
					}
					check(i, a)
				}
			})
		}
		for i := range starts {
			next <- i
		}
		close(next)
		senders.Wait()
		if t.Failed() {
			t.FailNow()
		}
	}
	all(func(i int, a answer) {
		var s client.Started
		if a.into(t, &s); a.status != http.StatusAccepted || !s.RunID.Valid() {
			t.Errorf("start %d: %d %s", i, a.status, a.body)
		}
		ids[i] = s.RunID
	})
	until(t, "all to be announced", func() bool {
		return d.count(t, `SELECT count(*) FROM trigger.v_deliveries WHERE announced_at IS NOT NULL`) == starts
	})

	lost := d.process("nats").kill(t)
	dir := d.natsDir(t)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	// Senders that lost their answer try again meanwhile: the same run.
	all(func(i int, a answer) {
		var s client.Started
		if a.into(t, &s); a.status != http.StatusAccepted || s.RunID != ids[i] || a.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("start %d again: %d %s, want the run %s", i, a.status, a.body, ids[i])
		}
	})
	d.start("nats")
	d.runners(2)
	until(t, "every run to end", func() bool {
		return d.count(t, `SELECT count(*) FROM runner.v_runs WHERE ended_at IS NOT NULL`) >= starts
	})
	t.Logf("%d runs ended %s after NATS had died", starts, time.Since(lost).Round(100*time.Millisecond))

	rows, err := d.db.Query(t.Context(), `SELECT run_id, status FROM runner.v_runs ORDER BY run_id`)
	if err != nil {
		t.Fatal(err)
	}
	got := map[events.RunID]string{}
	var id events.RunID
	var status string
	if _, err := pgx.ForEachRow(rows, []any{&id, &status}, func() error { got[id] = status; return nil }); err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		if got[id] != events.StatusCompleted {
			t.Errorf("start %d was answered with run %s, which is %q", i, id, got[id])
		}
		if n := d.out.model.Count(string(id)).Requests; n != 1 {
			t.Errorf("the model was asked %d times for run %s, want once", n, id)
		}
		delete(got, id)
	}
	for id := range got {
		t.Errorf("run %s was never answered", id)
	}
}

// natsDir is where the NATS process keeps its streams.
func (d *deployment) natsDir(t *testing.T) string {
	t.Helper()
	args := d.plans["nats"].args
	dir := args[len(args)-1]
	if found, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(found) == 0 || !strings.HasPrefix(dir, os.TempDir()) {
		t.Fatalf("%q holds no streams: %v", dir, err)
	}
	return dir
}
