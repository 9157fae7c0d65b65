package runner_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// Three runs under a window that has room for one: the others pause, and go on by
// themselves when the next part of the day begins, on two runners.
func TestWindow_PausedRunsGoOnInTheNextOne(t *testing.T) {
	r := newRig(t)
	forward := r.db.Clock(t)
	now := time.Now().UTC()
	r.defs.apply(t, strings.Replace(documents, "spec: {limit: 4000, alertAt: [50, 100]}", fmt.Sprintf(
		"spec: {window: {timeZone: UTC, parts: [{name: now, startHour: %d, limit: 900}, {name: then, startHour: %d, limit: 4000}]}}", now.Hour(), (now.Hour()+2)%24), 1))
	m := &script{answer: func(context.Context, runner.Request, int) (runner.Answer, error) {
		a := said("saved")
		a.Usage = events.Usage{InputTokens: 450, OutputTokens: 50}
		return a, nil
	}}
	r.worker(m)
	r.worker(m)
	ids := []events.RunID{r.start(events.KindAgent, "saver", `{}`), r.start(events.KindAgent, "saver", `{}`), r.start(events.KindAgent, "saver", `{}`)}
	count := func(status string) (n int) {
		for _, id := range ids {
			if r.status(id) == status {
				n++
			}
		}
		return n
	}
	r.eventually("one run is done and two are paused", func() bool {
		return count(events.StatusCompleted) == 1 && count(events.StatusPaused) == 2
	}, func() string { return r.journalText(ids[0]) + r.journalText(ids[1]) })
	forward(2 * time.Hour)
	for _, id := range ids {
		r.reaches(id, events.StatusCompleted)
		if n := m.count(id); n != 1 {
			t.Errorf("run %s made %d model calls, want 1", id, n)
		}
	}
	// What a run reserved is given back by a commit of its own, behind its last row.
	var windows, used, reserved int64
	r.eventually("two windows with 1500 used and nothing reserved", func() bool {
		if err := r.sql.QueryRow(t.Context(), `SELECT count(*), sum(used), sum(reserved) FROM runner.v_pools WHERE pool = 'night' AND used <= ceiling`).Scan(&windows, &used, &reserved); err != nil {
			t.Fatal(err)
		}
		return windows == 2 && used == 1500 && reserved == 0
	}, func() string { return fmt.Sprintf("%d windows with %d used and %d reserved", windows, used, reserved) })
}

// A run under way is held to what its shared budget says by its next call: to a
// lower limit until that is raised, and to money only where there are prices.
func TestBudget_AChangeUnderWayHoldsForTheNextCall(t *testing.T) {
	r := newRig(t)
	asked, changed := make(chan struct{}), make(chan struct{})
	m := &script{answer: func(_ context.Context, q runner.Request, n int) (runner.Answer, error) {
		a := said("done")
		if n == 1 {
			asked <- struct{}{}
			<-changed
			a = asks(runner.ModelCall{Tool: "look"})
		}
		a.Usage = events.Usage{InputTokens: 450, OutputTokens: 50}
		return a, nil
	}}
	r.defs.apply(t, strings.Replace(documents, "budget: {pools: [night]}", "tools: [look], budget: {pools: [night]}", 1))
	r.worker(m)
	r.tools(`"seen"`)
	pausedBy := func(budget, reason string) events.RunID {
		t.Helper()
		id := r.start(events.KindAgent, "saver", `{}`)
		<-asked
		r.defs.apply(t, budget)
		changed <- struct{}{}
		r.reaches(id, events.StatusPaused)
		if text := r.journalText(id); !strings.Contains(text, reason) || m.count(id) != 1 {
			t.Errorf("%d calls, want 1 and %q in\n%s", m.count(id), reason, text)
		}
		return id
	}
	id := pausedBy(narrow, "500 of 1000 tokens used, 0 reserved") // the next call may need 600
	if ceiling, used, reserved := r.pool(); ceiling != 1000 || used != 500 || reserved != 0 {
		t.Errorf("%d of %d used, %d reserved", used, ceiling, reserved)
	}
	r.command(id, events.RunRaiseBudget, events.Command{Budget: "pool:night", To: 5000})
	r.reaches(id, events.StatusCompleted)
	if _, used, reserved := r.pool(); used != 1000 || reserved != 0 || m.count(id) != 2 {
		t.Errorf("after the raise: %d calls, %d used, %d reserved", m.count(id), used, reserved)
	}
	id = pausedBy(strings.Replace(narrow, "limit: 1000", "limit: 5, unit: usd", 1), "it counts money, and model scripted has no prices")
	r.defs.apply(t, strings.Replace(narrow, "limit: 1000", "limit: 9000", 1))
	r.command(id, events.RunResume, events.Command{})
	r.reaches(id, events.StatusCompleted)
}

// What the first commit of a run counts from is the database's time, whatever the
// clock of the process says.
func TestStart_CountsByTheDatabasesClock(t *testing.T) {
	r := newRig(t)
	forward := r.db.Clock(t)
	r.defs.apply(t, "apiVersion: holdfast/v1\nkind: Flow\nmetadata: {name: nap}\nspec: {steps: [{name: nap, sleep: {for: 1h}}]}\n")
	forward(5 * time.Hour)
	r.worker(&script{})
	id := r.start(events.KindFlow, "nap", `{}`)
	r.reaches(id, events.StatusWaiting)
	var left float64
	if err := r.sql.QueryRow(t.Context(), `SELECT extract(epoch FROM t.due - pg_catalog.clock_timestamp())::float8 FROM runner.timers t WHERE run_id = $1`, string(id)).Scan(&left); err != nil || left < 5*3600+3000 || left > 6*3600 {
		t.Errorf("it is due in %.0f s of the process's clock (%v), want an hour of the database's", left, err)
	}
}
