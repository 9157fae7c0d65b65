package runner_test

import (
	"context"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// mark is what the world looked like when a step's model call was made.
type mark struct {
	at  time.Time
	wal int64
}

// What a step writes and takes does not grow with the run: a row holds what is
// new, and only new rows are read. HOLDFAST_LONG_STEPS=1000 is the long form,
// which needs a machine for itself: it also holds the time to that.
func TestLongRun_AStepCostsTheSameAtTheEnd(t *testing.T) {
	steps, long := 200, false
	if n, err := strconv.Atoi(os.Getenv("HOLDFAST_LONG_STEPS")); err == nil {
		steps, long = n, true
	}
	r := newRig(t)
	r.defs.apply(t, `
apiVersion: holdfast/v1
kind: Agent
metadata: {name: marathon}
spec: {model: scripted, instructions: work, tools: [look], budget: {modelCalls: 100000}}
`)
	var mu sync.Mutex
	var marks []mark
	r.worker(&script{answer: func(ctx context.Context, q runner.Request, n int) (runner.Answer, error) {
		m := mark{at: time.Now()}
		if err := r.sql.QueryRow(ctx, `SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn`).Scan(&m.wal); err != nil {
			return runner.Answer{}, err
		}
		mu.Lock()
		marks = append(marks, m)
		mu.Unlock()
		if n > steps {
			return said("done"), nil
		}
		return asks(runner.ModelCall{Tool: "look"}), nil
	}})
	r.tools(`{"page":"a page of text"}`)
	id := r.start(events.KindAgent, "marathon", `{}`)
	deadline := time.Now().Add(time.Duration(steps) * time.Second)
	for r.status(id) != events.StatusCompleted {
		if time.Now().After(deadline) {
			t.Fatalf("not over after %d of %d steps", len(marks), steps)
		}
		time.Sleep(50 * time.Millisecond)
	}
	const window = 41
	cost := func(from int) (bytes int64, took time.Duration) {
		var all []int64
		var times []time.Duration
		for i := from; i < from+window; i++ {
			all, times = append(all, marks[i+1].wal-marks[i].wal), append(times, marks[i+1].at.Sub(marks[i].at))
		}
		slices.Sort(all)
		slices.Sort(times)
		// Beats of workers and other tests write to the same log, more of them into a slow
		// step. They only add, and what grows with the run grows in every step: the least
		// that was written is the most of the run's own.
		return all[0], times[window/2]
	}
	firstBytes, firstTime := cost(10)
	lastBytes, lastTime := cost(steps - window - 1)
	t.Logf("%d steps: write-ahead log of a step %d, then %d bytes (%.2f); time %s, then %s (%.2f)", steps, firstBytes, lastBytes,
		float64(lastBytes)/float64(firstBytes), firstTime.Round(10*time.Microsecond), lastTime.Round(10*time.Microsecond), float64(lastTime)/float64(firstTime))
	if lastBytes > firstBytes*6/5 {
		t.Errorf("a step at the end writes %d bytes of log, at the beginning %d; want at most 1.2 times as much", lastBytes, firstBytes)
	}
	if long && lastTime > firstTime*6/5 {
		t.Errorf("a step at the end takes %s, at the beginning %s; want at most 1.2 times as long", lastTime, firstTime)
	}
}
