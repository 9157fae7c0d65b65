package e2e

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// TestCaseC01_PausedRunner stops a runner process where it hurts, lets another take
// its run over, and wakes it up: it writes nothing, calls nothing and lives on.
func TestCaseC01_PausedRunner(t *testing.T) {
	t.Parallel()
	d := deploy(t, fresh(t)).runners(2)
	d.seenAlive(t, 2)
	t.Run("in a model call", func(t *testing.T) { pauseInModelCall(t, d, "") })
	t.Run("between the answer and its commit", func(t *testing.T) { pauseInModelCall(t, d, "runner.answered=sleep:2s") })
	t.Run("between a call and its result", func(t *testing.T) { pauseInToolCall(t, d) })
}

// seenAlive waits until n runners have been fresh for long enough to judge others.
func (d *deployment) seenAlive(t *testing.T, n int) {
	t.Helper()
	until(t, "the runners to be 2 s old", func() bool {
		return d.count(t, `SELECT count(*) FROM runner.v_workers
			WHERE beat > clock_timestamp() - interval '1 s' AND fresh_since < clock_timestamp() - interval '2 s'`) == n
	})
}

// pauseInModelCall stops the owner of a model call; its answer arrives while it is
// asleep, or shortly before.
func pauseInModelCall(t *testing.T, d *deployment, failpoint string) {
	victim := "runner-1"
	if failpoint != "" {
		d.process("runner-2").term(t) // so that the armed one gets the run
		d.process(victim).term(t)
		d.armed(victim, failpoint)
	}
	j := job{Job: fmt.Sprintf("paused-%d", len(failpoint)), Do: []string{"pay"}}
	h := d.out.hold(t, j.Job, 0)
	id := d.startJob(t, j)
	h.wait(t)
	if failpoint == "" {
		for name := range d.claimed(t, []events.RunID{id}) {
			victim = name
		}
	} else {
		d.start("runner-2")
		d.seenAlive(t, 2)
		h.release()
		until(t, "the answer", func() bool { return d.out.model.Count(string(id)).Answered == 1 })
	}
	asleep := d.process(victim)
	asleep.signal(t, syscall.SIGSTOP)
	before := d.count(t, `SELECT claim_epoch FROM runner.v_runs WHERE run_id = $1`, string(id))
	if failpoint == "" {
		h.wait(t) // asked again by the other
	} else {
		d.finished(t, id, j, 1)
	}
	asleep.signal(t, syscall.SIGCONT)
	if failpoint == "" {
		until(t, "the woken one to beat", func() bool {
			return d.count(t, `SELECT count(*) FROM runner.v_workers WHERE pid = $1 AND beat > clock_timestamp() - interval '1 s'`, asleep.pid()) == 1
		})
		h.release() // both have their answer
	}
	journal := d.finished(t, id, j, 1)
	until(t, "the woken one to be ready", func() bool { return answers(t.Context(), "http://"+asleep.health+"/ready") })
	for _, e := range journal {
		if e.Kind == events.FactModelAnswered && e.Seq == 2 && d.runnerOf(t, e.Worker) == victim {
			t.Errorf("row %d was written by the paused runner", e.Seq)
		}
	}
	if n := len(d.out.of("pay", j.Job)); n != 1 {
		t.Errorf("the shop was asked %d times", n)
	}
	if after := d.count(t, `SELECT claim_epoch FROM runner.v_runs WHERE run_id = $1`, string(id)); after <= before {
		t.Errorf("the epoch was %d before the takeover and is %d", before, after)
	}
	d.seenAlive(t, 2)
}

// pauseInToolCall stops every runner but one while the shop acts; who wakes up finds
// its run moved on.
func pauseInToolCall(t *testing.T, d *deployment) {
	j := job{Job: "paused-tool", Do: []string{"send"}}
	h := d.out.holdAct(t, j.Job)
	id := d.startJob(t, j)
	until(t, "the shop to be asked", func() bool { return len(d.out.of("send", j.Job)) == 1 })
	victim := d.runnerOf(t, d.journal(t, id)[1].Worker)
	asleep := d.process(victim)
	asleep.signal(t, syscall.SIGSTOP)
	h.release()
	began := time.Now()
	d.finished(t, id, j, 0)
	t.Logf("ended by the other after %s", time.Since(began).Round(time.Millisecond))
	asleep.signal(t, syscall.SIGCONT)
	until(t, "the woken one to be ready", func() bool { return answers(t.Context(), "http://"+asleep.health+"/ready") })
	d.finished(t, id, j, 0)
	d.seenAlive(t, 2)
}
