package runner_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

func nightly(spec string) string {
	return "apiVersion: holdfast/v1\nkind: Budget\nmetadata: {name: night}\nspec: {" + spec + "}\n"
}

// pausedForNight starts n runs under a limit that no call fits under.
func (r *rig) pausedForNight(n int) (ids []events.RunID) {
	r.t.Helper()
	for range n {
		ids = append(ids, r.start(events.KindAgent, "saver", `{}`))
	}
	r.eventually("all pause", func() bool {
		return r.count(`SELECT count(*) FROM runner.runs WHERE paused_for = 'pool:night'`) == n && r.count(`SELECT count(*) FROM runner.pool_pauses`) == n
	}, func() string { return r.journalText(ids[0]) })
	return ids
}

// Twenty runs (500 in the long form) stand still for a shared budget. Its
// definition gets a higher limit, and all go on without a person: each once, with
// one model call, never more at a time than the limit has room for.
func TestPoolRaise_AHigherLimitAppliedWakesWhoIsPaused(t *testing.T) {
	r := newRig(t)
	runs := 20
	if os.Getenv("HOLDFAST_LONG_STEPS") != "" {
		runs = 500
	}
	r.defs.apply(t, nightly("limit: 10"))
	var over atomic.Int64
	m := &script{answer: func(_ context.Context, q runner.Request, n int) (runner.Answer, error) {
		if ceiling, used, reserved := r.pool(); used+reserved > ceiling {
			over.Add(1)
		}
		return said("saved"), nil
	}}
	r.worker(m)
	r.worker(m)
	ids := r.pausedForNight(runs)
	// Room for all in the end, and for a few calls at a time at first.
	r.defs.apply(t, nightly(fmt.Sprintf("limit: %d", runs*15+1500)))
	want := []string{events.FactStarted, events.FactPaused, events.FactResumed, events.FactModelAnswered, events.FactCompleted}
	for _, id := range ids {
		r.reaches(id, events.StatusCompleted)
		if got := r.kinds(id); m.count(id) != 1 || !slices.Equal(got, want) {
			t.Errorf("run %s: %d model calls, rows %v, want 1 and %v", id, m.count(id), got, want)
		}
		if resumed := r.journal(id)[2]; !strings.Contains(string(resumed.Data), `"by":"budget"`) {
			t.Errorf("run %s went on by %s, want budget", id, resumed.Data)
		}
	}
	if ceiling, used, reserved := r.pool(); used != int64(15*runs) || reserved != 0 || over.Load() != 0 {
		t.Errorf("used %d and reserved %d of %d, %d calls saw more than the limit", used, reserved, ceiling, over.Load())
	}
	if n := r.count(`SELECT count(*) FROM runner.pool_pauses`); n != 0 {
		t.Errorf("%d notes of pauses are left", n)
	}
}

// A limit that was lowered again wins over news of the higher one, news for a
// pause that is over change nothing, and a budget that only alerts from now on
// holds nobody.
func TestPoolRaise_TheNewestDefinitionWins(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, nightly("limit: 10"))
	m := &script{answer: func(_ context.Context, q runner.Request, n int) (runner.Answer, error) {
		if len(q.Tools) > 0 && n == 1 {
			return asks(runner.ModelCall{Tool: "look"}), nil
		}
		return said("saved"), nil
	}}
	r.worker(m)
	ids := r.pausedForNight(2)
	room := func(id events.RunID, name string) {
		r.command(id, events.RunResume, events.Command{ID: name + string(id), Budget: "pool:night", Reason: "the budget night has room again"})
	}
	room(ids[0], "stale")
	again := []string{events.FactStarted, events.FactPaused, events.FactResumed, events.FactPaused}
	r.eventually("it pauses again", func() bool { return slices.Equal(r.kinds(ids[0]), again) && r.status(ids[0]) == events.StatusPaused }, func() string { return r.journalText(ids[0]) })
	if m.count(ids[0]) != 0 {
		t.Errorf("%d model calls under the lower limit", m.count(ids[0]))
	}
	// A raise that comes again behind a lower limit lifts nothing.
	raise := events.Command{ID: "raise", RunID: ids[1], Budget: "pool:night", To: 12, Principal: "op"}
	ceiling := func() int64 { c, _, _ := r.pool(); return c }
	send := func(nudge string) {
		r.publish(events.RunSubject(ids[1], events.RunRaiseBudget), "command:raise", events.TypeCommandRun, raise, nudge)
	}
	send("")
	r.eventually("the ceiling is raised", func() bool { return ceiling() == 12 }, func() string { return fmt.Sprint(ceiling()) })
	r.defs.apply(t, nightly("limit: 11"))
	ids = append(ids, r.start(events.KindAgent, "saver", `{}`)) // whose call follows the definition
	r.eventually("it is lowered", func() bool { return ceiling() == 11 }, func() string { return fmt.Sprint(ceiling()) })
	send(":again")
	r.drained()
	if c := ceiling(); c != 11 {
		t.Errorf("the ceiling is %d after the raise came again, want the 11 of the definition", c)
	}
	// Nor does one that a later raise has overtaken.
	r.command(ids[1], events.RunRaiseBudget, events.Command{ID: "second", Budget: "pool:night", To: 12, Place: 2})
	r.eventually("it is raised again", func() bool { return ceiling() == 12 }, func() string { return fmt.Sprint(ceiling()) })
	r.command(ids[1], events.RunRaiseBudget, events.Command{ID: "first", Budget: "pool:night", To: 13, Place: 1})
	r.eventually("the one before it is recorded", func() bool { return strings.Contains(r.journalText(ids[1]), `"overtaken":"second"`) }, func() string { return r.journalText(ids[1]) })
	if c := ceiling(); c != 12 {
		t.Errorf("the ceiling is %d, and the last word was 12", c)
	}
	r.defs.apply(t, nightly("limit: 10, onExceeded: alert"))
	for _, id := range ids {
		r.reaches(id, events.StatusCompleted)
	}

	calls := r.tools("")
	clerk := r.start(events.KindAgent, "clerk", `{}`)
	r.eventually("a call is out", func() bool { return len(calls.all()) == 1 }, func() string { return r.journalText(clerk) })
	r.finish(calls.all()[0], events.CallSucceeded, `1`)
	r.reaches(clerk, events.StatusCompleted)
	held := r.start(events.KindAgent, "clerk", `{}`)
	r.eventually("another is out", func() bool { return len(calls.all()) == 2 }, func() string { return r.journalText(held) })
	r.command(held, events.RunPause, events.Command{Reason: "look first"})
	r.reaches(held, events.StatusPaused)
	for _, id := range []events.RunID{clerk, held} {
		rows := r.kinds(id)
		room(id, "late")
		r.drained()
		if got := r.kinds(id); !slices.Equal(got, rows) {
			t.Errorf("rows %v after news for a pause that is over, or is a person's; want %v", got, rows)
		}
	}
}
