package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
	"github.com/holdfast-run/holdfast/services/runner/postgres"
)

// Sixteen runs on two workers that have two connections between them, which
// somebody else keeps for longer than a dead worker is waited for, while the doctor
// asks and people decide: everything ends, nobody living is taken over, and no
// transaction is open during a model call or while a tool works.
func TestCaseC09_TwoConnectionsAreEnough(t *testing.T) {
	r := newRig(t)
	pool, err := pg.Open(t.Context(), pg.Config{URL: r.db.URL, Role: "holdfast_runner", MaxConns: 2, AppName: "narrow"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	r.wrap = func(runner.Store) runner.Store { return postgres.New(pool) }
	const runs = 16
	thinking, acting := make(chan struct{}), make(chan struct{})
	m := &script{answer: func(ctx context.Context, q runner.Request, n int) (runner.Answer, error) {
		select {
		case <-thinking:
		case <-ctx.Done():
		}
		return lookThenChange(ctx, q, n)
	}}
	often := func(c *runner.Config) { c.ModelSlots, c.DoctorEvery = 8, 100*time.Millisecond }
	r.worker(m, often)
	r.worker(m, often)
	begun := receive(r, events.StreamTools, events.ToolConsumer("default"), func(c events.CallTool) {
		go func() {
			<-acting
			r.finish(c, events.CallSucceeded, `1`)
		}()
	})
	r.approvals(events.Approve)
	var ids []events.RunID
	for range runs {
		ids = append(ids, r.start(events.KindAgent, "clerk", `{}`))
	}
	// One that is held for a call stays until the call is let go; what sweeps open is gone at the next look.
	idle := func(during string) {
		t.Helper()
		r.eventually("no transaction is open during "+during, func() bool {
			return r.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'narrow' AND state LIKE 'idle in transaction%'`) == 0
		}, func() string { return "one is" })
	}
	now := func() string { return r.journalText(ids[0]) }
	r.eventually("all are in the model", func() bool {
		n := 0
		for _, id := range ids {
			n += m.count(id)
		}
		return n == runs
	}, now)
	idle("model calls")
	for range 2 {
		c, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(2500*time.Millisecond, c.Release)
	}
	close(thinking)
	r.eventually("all wait for their tools", func() bool { return len(begun.all()) == runs }, now)
	r.eventually("all are asked about", func() bool {
		return r.count(`SELECT count(*) FROM runner.v_runs WHERE status = 'waiting'`) == runs
	}, now)
	idle("tool calls")
	close(acting)
	for _, id := range ids {
		r.reaches(id, events.StatusCompleted)
		if n := m.count(id); n != 3 {
			t.Errorf("run %s: %d model calls, want 3", id, n)
		}
	}
	if n := r.count(`SELECT sum(attempts) FROM runner.v_runs`); n != 0 {
		t.Errorf("%d takeovers of living workers", n)
	}
	if n := r.count(`SELECT max(claim_epoch) FROM runner.v_runs`); n > 3 {
		t.Errorf("a run was claimed %d times for 3 model calls", n)
	}
}

// Steps of 100 kB: storage grows by what is new, the whole history is read again in
// a moment, and a cancel works as ever. HOLDFAST_LONG_STEPS=1000 is the long form.
func TestCaseC10_HugeHistory(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, `
apiVersion: holdfast/v1
kind: Agent
metadata: {name: reader}
spec: {model: scripted, instructions: work, tools: [look], budget: {modelCalls: 10000, toolCalls: 10000}}
`)
	const size = 100_000
	steps := 16
	if n, err := strconv.Atoi(os.Getenv("HOLDFAST_LONG_STEPS")); err == nil {
		steps = n
		r.unread = steps > 300 // a request with more than 32 MB is none that a provider takes
	}
	last := make(chan struct{}, 1)
	r.worker(&script{answer: func(ctx context.Context, _ runner.Request, n int) (runner.Answer, error) {
		if n <= steps {
			return asks(runner.ModelCall{Tool: "look"}), nil
		}
		last <- struct{}{}
		<-ctx.Done()
		return runner.Answer{}, context.Cause(ctx)
	}})
	page, err := json.Marshal(strings.Repeat("x", size))
	if err != nil {
		t.Fatal(err)
	}
	r.tools(string(page))
	id := r.start(events.KindAgent, "reader", `{}`)
	select {
	case <-last:
	case <-time.After(time.Minute + time.Duration(steps)*time.Second):
		t.Fatalf("the last step is not reached: %s", r.status(id))
	}
	half := func(from, to int) int {
		return r.count(fmt.Sprintf(`SELECT sum(length(data::text)) FROM runner.v_events WHERE run_id = '%s' AND seq > %d AND seq <= %d`, id, from, to))
	}
	first, second := half(1, 1+steps), half(1+steps, 1+2*steps)
	if first < steps/2*size || second > first*101/100 {
		t.Errorf("the first half has %d bytes, the second %d; %d are new in each", first, second, steps/2*size)
	}
	began := time.Now()
	l, err := postgres.New(r.db.Open(t, "holdfast_runner")).Load(t.Context(), id, nil)
	if err != nil || l.State.Seq != int64(1+2*steps) {
		t.Fatalf("%v", err)
	}
	took := time.Since(began)
	t.Logf("%d bytes of history were read in %s", first+second, took.Round(time.Millisecond))
	if took > 5*time.Second {
		t.Errorf("reading the history took %s", took)
	}
	r.command(id, events.RunCancel, events.Command{})
	r.reaches(id, events.StatusCancelled)
}

// An answer with 1,000 calls, in the long form 5,000: 256 go out, of one commit, and a
// cancel takes back all.
func TestCaseC10_CancelOfAnAnswerWithTooManyCalls(t *testing.T) {
	const made = 256
	calls := 1000
	if os.Getenv("HOLDFAST_LONG_STEPS") != "" {
		calls = 5000
	}
	r := newRig(t)
	r.defs.apply(t, `
apiVersion: holdfast/v1
kind: Agent
metadata: {name: reader}
spec: {model: scripted, instructions: work, tools: [look], budget: {toolCalls: 10000}}
`)
	r.worker(&script{answer: func(context.Context, runner.Request, int) (runner.Answer, error) {
		return asks(slices.Repeat([]runner.ModelCall{{Tool: "look"}}, calls)...), nil
	}})
	id := r.start(events.KindAgent, "reader", `{}`)
	r.eventually("the calls to be waited for", func() bool { return r.count(`SELECT count(*) FROM runner.pending`) == made }, func() string { return r.status(id) })
	receive(r, events.StreamTools, events.ConsumerToolCtl, func(c events.ControlTool) {
		r.finish(events.CallTool{CallID: c.CallID, RunID: c.RunID, Tool: "look"}, events.CallRevoked, "")
	})
	r.command(id, events.RunCancel, events.Command{})
	r.reaches(id, events.StatusCancelled)
	if n := r.count(`SELECT (SELECT count(*) FROM runner.pending) + (SELECT count(*) FROM runner.timers)`); n != 0 {
		t.Errorf("%d things are still waited for", n)
	}
}
