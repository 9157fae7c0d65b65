package runner_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// stop ends a worker as a deploy does: it takes nothing more, and its heart stops.
func (w *worker) stop() {
	ctx, done := context.WithTimeout(context.Background(), time.Second)
	defer done()
	_ = w.inbox.Stop(ctx)
	w.stopBeat()
}

// Two releases work side by side, with runs in every state: the newer one comes,
// is rolled back and comes again. What it wrote to is worked on by it alone, also
// when the older one had a model call of it in flight; everything else goes on
// with whoever is there, and nothing is done twice.
func TestVersions_ARollingDeployBothWays(t *testing.T) {
	r := newRig(t)
	inCall, answer := make(chan struct{}, 1), make(chan struct{})
	busy := events.NewRunID()
	model := &script{answer: func(ctx context.Context, q runner.Request, n int) (runner.Answer, error) {
		if q.RunID == busy && n == 1 {
			inCall <- struct{}{}
			<-answer
		}
		return looksOnce(ctx, q, n)
	}}
	sent, answered := r.tools(""), 0
	waiting := func(n int) (out []events.RunID) {
		t.Helper()
		for range n {
			out = append(out, r.start(events.KindAgent, "clerk", `{}`))
		}
		for _, id := range out {
			r.reaches(id, events.StatusWaiting)
		}
		return out
	}
	finish := func(calls int) {
		t.Helper()
		r.eventually("all calls are sent", func() bool { return len(sent.all()) >= calls }, func() string { return r.journalText(busy) })
		for _, c := range sent.all()[answered:] {
			r.finish(c, events.CallSucceeded, `{}`)
		}
		answered = len(sent.all())
	}
	written := func(ids ...events.RunID) { // what a commit of the newer release does
		for _, id := range ids {
			r.exec(`UPDATE runner.runs SET min_reader = 3 WHERE run_id = $1`, string(id))
		}
	}
	release := func(reader int) *worker {
		r.reader = reader
		return r.worker(model)
	}

	older := release(2)
	plain, young := waiting(4), waiting(4)
	r.startAs(busy, events.KindAgent, "clerk", `{}`)
	<-inCall
	written(append(slices.Clone(young), busy)...)
	newer := release(3)
	close(answer)
	finish(9)
	for _, id := range slices.Concat(plain, young, []events.RunID{busy}) {
		r.reaches(id, events.StatusCompleted)
	}
	if n := model.count(busy); n != 3 {
		t.Errorf("%d calls of the run that was left in its call, want the lost one and two", n)
	}

	back, kept := waiting(4), waiting(4) // and back again
	written(kept...)
	newer.stop()
	finish(17)
	for _, id := range back {
		r.reaches(id, events.StatusCompleted)
	}
	for _, id := range kept {
		if s := r.status(id); s != events.StatusWaiting {
			t.Errorf("the older release brought a newer run to %s", s)
		}
	}
	release(3)
	for _, id := range kept {
		r.reaches(id, events.StatusCompleted)
	}
	for _, id := range slices.Concat(plain, young, back, kept) {
		if n := model.count(id); n != 2 {
			t.Errorf("run %s: %d model calls, want 2", id, n)
		}
	}
	for _, id := range slices.Concat(young, kept) {
		for _, row := range r.journal(id) {
			if row.Seq > 2 && row.Worker == older.name {
				t.Errorf("row %d of a newer run was written by the older release", row.Seq)
			}
		}
	}
	var attempts, rejected, open int
	if err := r.sql.QueryRow(t.Context(), `SELECT coalesce(sum(attempts), 0), (SELECT count(*) FROM runner.rejected), count(*) FILTER (WHERE status <> 'completed') FROM runner.runs`).Scan(&attempts, &rejected, &open); err != nil || attempts+rejected+open != 0 {
		t.Errorf("%d failed attempts, %d rejected messages, %d runs not completed (%v)", attempts, rejected, open, err)
	}
}
