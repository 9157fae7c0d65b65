package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/linetest"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// TestCaseC01_CutOffRunner cuts a runner off from one of the two that it stands on, in
// a model call, and lets it come back: each call is made once, and the run has one end.
func TestCaseC01_CutOffRunner(t *testing.T) {
	t.Parallel()
	database := fresh(t)
	d := deploy(t, database)
	toPostgres, url := linetest.Postgres(t, database.Reveal())
	toNATS := linetest.New(t, "tcp", strings.TrimPrefix(d.natsURL, "nats://"))
	d.plan("runner-1", "runner")
	p := d.plans["runner-1"]
	p.env = append(slices.Clone(p.env), "HOLDFAST_DATABASE_URL="+url, "HOLDFAST_NATS_URL=nats://"+toNATS.Addr)
	d.plans["runner-1"] = p
	d.plan("runner-2", "runner")
	d.start("runner-1")

	// Without Postgres it cannot say that it lives: another takes its run over and asks
	// the model again, and what the first hears counts for nothing.
	t.Run("from Postgres", func(t *testing.T) {
		j := job{Job: "cut-off-postgres", Do: []string{"pay", "send"}}
		h := d.out.hold(t, j.Job, 0)
		id := d.startJob(t, j)
		h.wait(t)
		toPostgres.Hold()
		d.start("runner-2")
		h.wait(t) // asked by the other
		h.release()
		d.finished(t, id, j, 1)
		toPostgres.Pass()
		until(t, "the one that was cut off to be ready", func() bool {
			return answers(t.Context(), "http://"+d.process("runner-1").health+"/ready")
		})
		for _, e := range d.finished(t, id, j, 1) {
			if e.Seq > 1 && d.runnerOf(t, e.Worker) != "runner-2" {
				t.Errorf("row %d, %s, is of %s", e.Seq, e.Kind, d.runnerOf(t, e.Worker))
			}
		}
		if n := len(d.out.of("pay", j.Job)); n != 1 {
			t.Errorf("the shop was asked %d times", n)
		}
		d.process("runner-2").term(t)
	})

	// Without NATS it lives on and keeps its claim: its answer is committed and not
	// asked for again, and the calls are made once the line is back or by another.
	t.Run("from NATS", func(t *testing.T) {
		j := job{Job: "cut-off-nats", Do: []string{"pay", "send"}}
		h := d.out.hold(t, j.Job, 0)
		id := d.startJob(t, j)
		h.wait(t)
		toNATS.Hold()
		d.start("runner-2")
		h.release()
		until(t, "the answer in the journal", func() bool {
			return d.count(t, `SELECT count(*) FROM runner.v_events WHERE run_id = $1 AND kind = $2`, string(id), events.FactModelAnswered) >= 1
		})
		d.finished(t, id, j, 0) // by the other, while the first is still cut off
		toNATS.Pass()
		until(t, "the one that was cut off to be ready", func() bool {
			return answers(t.Context(), "http://"+d.process("runner-1").health+"/ready")
		})
		d.finished(t, id, j, 0)
		for i := range 4 { // both work again
			next := job{Job: fmt.Sprintf("after-the-cut-%d", i), Do: []string{"pay"}}
			d.finished(t, d.startJob(t, next), next, 0)
		}
	})
}
