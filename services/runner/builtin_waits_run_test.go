package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/runner"
	"github.com/holdfast-run/holdfast/services/runner/inbox"
	"github.com/holdfast-run/holdfast/services/runner/postgres"
)

const builtinDocuments = documents + `
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: sleep}
spec: {builtin: sleep_until}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: delegate}
spec: {builtin: start_run, startRun: {agents: [helper]}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: launch}
spec: {builtin: start_run, startRun: {agents: [helper], wait: false}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: ask}
spec: {builtin: ask_person, askPerson: {to: pricing}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: helper}
spec: {model: scripted, instructions: help, tools: [sleep]}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: limited}
spec: {model: scripted, instructions: limited}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: lead}
spec: {model: scripted, instructions: lead, tools: [sleep, delegate, launch, ask]}
` + keeperDocuments

// leads makes calls in the first answer of a run of the agent lead and ends
// with what they gave, line by line. A helper says its input.
func leads(calls ...runner.ModelCall) *script {
	return &script{answer: func(_ context.Context, q runner.Request, _ int) (runner.Answer, error) {
		switch {
		case strings.HasPrefix(q.System, "help"):
			return said(q.System + " " + q.Entries[0].User), nil
		case len(q.Entries) == 1:
			return asks(calls...), nil
		}
		var lines []string
		for _, r := range q.Entries[2].Results {
			lines = append(lines, r.Text)
		}
		return said(strings.Join(lines, "\n")), nil
	}}
}

func call(tool, args string) runner.ModelCall {
	return runner.ModelCall{ProviderID: "toolu_" + string(events.DigestOf([]byte(tool + args)))[7:19], Tool: tool, Args: json.RawMessage(args)}
}

func newBuiltinRig(t *testing.T) *rig {
	r := newRig(t)
	r.defs.apply(t, builtinDocuments)
	return r
}

// childrenOf are the runs whose parent is id, in the order of their ids.
func (r *rig) childrenOf(id events.RunID) (out []events.RunID) {
	r.t.Helper()
	rows, err := r.sql.Query(r.t.Context(), `SELECT run_id FROM runner.v_runs WHERE parent_run_id = $1 ORDER BY run_id`, string(id))
	if err != nil {
		r.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			r.t.Fatal(err)
		}
		out = append(out, events.RunID(s))
	}
	return out
}

// A run that sleeps is a row and a timer: it wakes on time after the death of
// its worker and the loss of all that NATS had, and says when by the database.
func TestRun_SleepsThroughTheLossOfEverythingElse(t *testing.T) {
	r := newBuiltinRig(t)
	m := leads(call("sleep", `{"for":"1500ms"}`))
	first := r.worker(m)
	id := r.start(events.KindAgent, "lead", `{}`)
	r.reaches(id, events.StatusWaiting)
	var waiting, kind string
	var asked bool
	if err := r.sql.QueryRow(t.Context(), `SELECT waiting, p.kind, p.next_nudge < 'infinity' FROM runner.runs JOIN runner.pending p USING (run_id) WHERE run_id = $1`, string(id)).Scan(&waiting, &kind, &asked); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(waiting, "sleeping until 20") || kind != "timer" || asked {
		t.Errorf("waiting %q, row %s, asked about again %v", waiting, kind, asked)
	}
	first.freeze()
	r.nats.Wipe()
	r.worker(m)
	r.reaches(id, events.StatusCompleted)
	var got struct {
		Until time.Time `json:"until"`
		Woke  time.Time `json:"woke_at"`
	}
	if err := json.Unmarshal([]byte(r.output(id)), &got); err != nil {
		t.Fatal(err)
	}
	var at time.Time
	if err := r.sql.QueryRow(t.Context(), `SELECT at FROM runner.v_events WHERE run_id = $1 AND kind = $2`, string(id), events.FactTimerFired).Scan(&at); err != nil {
		t.Fatal(err)
	}
	if got.Woke.Before(got.Until) || got.Woke.After(at) || at.Sub(got.Woke) > time.Second {
		t.Errorf("it was to wake at %s, says %s and was recorded at %s", got.Until, got.Woke, at)
	}
	want := []string{events.FactStarted, events.FactModelAnswered, events.FactSleepStarted, events.FactTimerFired, events.FactModelAnswered, events.FactCompleted}
	if diff := cmp.Diff(want, r.kinds(id)); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
}

// The calls of one answer start one child each, at the version that was current
// when the parent began, and their ends are the results, in the order of the calls.
func TestRun_StartsChildrenOfThePinnedVersion(t *testing.T) {
	r := newBuiltinRig(t)
	gate := make(chan struct{})
	m := leads(call("delegate", `{"input":{"n":9007199254740993}}`), call("delegate", `{"input":"b"}`), call("delegate", `{"agent":"nobody"}`))
	answer := m.answer
	m.answer = func(ctx context.Context, q runner.Request, n int) (runner.Answer, error) {
		select {
		case <-gate:
		case <-ctx.Done():
			return runner.Answer{}, context.Cause(ctx)
		}
		return answer(ctx, q, n)
	}
	r.worker(m, func(c *runner.Config) { c.DoctorEvery = 50 * time.Millisecond })
	r.worker(m)
	id := r.start(events.KindAgent, "lead", `{}`)
	r.eventually("the model is asked", func() bool { return m.count(id) == 1 }, func() string { return r.journalText(id) })
	r.defs.apply(t, strings.ReplaceAll(builtinDocuments, "instructions: help,", "instructions: help otherwise,"))
	close(gate)
	r.reaches(id, events.StatusCompleted)
	lines := strings.Split(r.output(id), "\n")
	if len(lines) != 3 || lines[0] != `help {"n":9007199254740993}` || lines[1] != `help "b"` || !strings.HasPrefix(lines[2], "invalid_arguments: ") {
		t.Errorf("the model was told %q", lines)
	}
	children := r.childrenOf(id)
	if len(children) != 2 {
		t.Fatalf("%d children, want 2", len(children))
	}
	for _, c := range children {
		if r.status(c) != events.StatusCompleted || m.count(c) != 1 {
			t.Errorf("child %s is %s after %d model calls", c, r.status(c), m.count(c))
		}
	}
	r.consistent(append(children, id)...)
}

func TestRun_CancelTakesItsChildrenAlong(t *testing.T) {
	r := newBuiltinRig(t)
	m := leads(call("delegate", `{"input":1}`), call("launch", `{"input":2}`), call("ask", `{"question":"?"}`))
	answer := m.answer
	m.answer = func(ctx context.Context, q runner.Request, n int) (runner.Answer, error) {
		if strings.HasPrefix(q.System, "help") {
			return asks(call("sleep", `{"for":"30d"}`)), nil
		}
		return answer(ctx, q, n)
	}
	r.worker(m)
	withdrawn := receive[events.WithdrawApproval](r, events.StreamApprovals, events.ConsumerApprovals, nil)
	id := r.start(events.KindAgent, "lead", `{}`)
	r.eventually("both children sleep", func() bool {
		c := r.childrenOf(id)
		return len(c) == 2 && r.status(c[0]) == events.StatusWaiting && r.status(c[1]) == events.StatusWaiting
	}, func() string { return r.journalText(id) })
	r.command(id, events.RunCancel, events.Command{})
	r.reaches(id, events.StatusCancelled)
	for _, c := range r.childrenOf(id) {
		r.reaches(c, events.StatusCancelled)
	}
	r.eventually("the question is withdrawn", func() bool {
		for _, w := range withdrawn.all() {
			if w.Reason != "" && w.RunID == id {
				return true
			}
		}
		return false
	}, func() string { return fmt.Sprint(withdrawn.all()) })
	var left int
	if err := r.sql.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM runner.pending) + (SELECT count(*) FROM runner.timers)`).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d rows are left, %v", left, err)
	}
}

// A child that no call waits for outlives its parent; the row that asks about
// it stays until its end is recorded behind the parent's.
func TestRun_LeavesAChildAlone(t *testing.T) {
	r := newBuiltinRig(t)
	gate := make(chan struct{})
	m := leads(call("launch", `{"input":{}}`))
	answer := m.answer
	m.answer = func(ctx context.Context, q runner.Request, n int) (runner.Answer, error) {
		if strings.HasPrefix(q.System, "help") {
			select {
			case <-gate:
			case <-ctx.Done():
				return runner.Answer{}, context.Cause(ctx)
			}
		}
		return answer(ctx, q, n)
	}
	r.worker(m)
	id := r.start(events.KindAgent, "lead", `{}`)
	r.reaches(id, events.StatusCompleted)
	r.eventually("the child is at work", func() bool { c := r.childrenOf(id); return len(c) == 1 && m.count(c[0]) == 1 }, func() string { return r.journalText(id) })
	child := r.childrenOf(id)[0]
	if got := r.output(id); got != `{"run_id":"`+string(child)+`"}` {
		t.Errorf("the model was told %s", got)
	}
	open := func() (n int) {
		if err := r.sql.QueryRow(t.Context(), `SELECT count(*) FROM runner.v_pending WHERE run_id = $1 AND kind = 'started'`, string(id)).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if open() != 1 {
		t.Error("nobody asks about the child of an ended run")
	}
	close(gate)
	r.reaches(child, events.StatusCompleted)
	r.eventually("its end is recorded", func() bool { return open() == 0 }, func() string { return r.journalText(id) })
	if k := r.kinds(id); k[len(k)-1] != events.FactChildCompleted || r.status(id) != events.StatusCompleted {
		t.Errorf("%s, journal %v", r.status(id), k)
	}
}

// A person's answer is the call's result, whatever was lost on the way.
func TestRun_AsksAPerson(t *testing.T) {
	r := newBuiltinRig(t)
	m := leads(call("ask", `{"question":"Which price?"}`))
	r.worker(m, func(c *runner.Config) { c.DoctorEvery = 100 * time.Millisecond })
	id := r.start(events.KindAgent, "lead", `{}`)
	r.reaches(id, events.StatusWaiting)
	r.nats.Wipe()
	if _, err := r.sql.Exec(t.Context(), `UPDATE runner.pending SET next_nudge = clock_timestamp()`); err != nil {
		t.Fatal(err)
	}
	asked := receive(r, events.StreamApprovals, events.ConsumerApprovals, func(a events.AskApproval) {
		for range 2 {
			r.publish(events.RunSubject(a.RunID, events.RunApprovalDecided), "decision:"+string(a.ApprovalID), events.TypeApprovalDecided, events.ApprovalDecision{
				ApprovalID: a.ApprovalID, Kind: a.Kind, RunID: a.RunID, CallID: a.CallID, Decision: events.Answered, Digest: a.Digest, By: "maria",
				Result: json.RawMessage(`{"price":90071992547409931.50}`), DecidedAt: time.Now().UTC()})
		}
	})
	r.reaches(id, events.StatusCompleted)
	if got := r.output(id); got != `{"price":90071992547409931.50}` {
		t.Errorf("the model was told %s", got)
	}
	if a := asked.all()[0]; a.Kind != events.ApprovalQuestion || a.Question == nil || a.Question.To != "pricing" || a.Question.Text != "Which price?" {
		t.Errorf("asked %+v", a)
	}
	var by string
	if err := r.sql.QueryRow(t.Context(), `SELECT data->>'by' FROM runner.v_events WHERE run_id = $1 AND kind = $2`, string(id), events.FactApprovalDecided).Scan(&by); err != nil || by != "maria" {
		t.Errorf("answered by %q, %v", by, err)
	}
}

// A runner is killed between the commit of an answer that starts two children
// and the publish, or between the publish and the acknowledgement. Whoever takes
// over makes them exist once each, and asks the model nothing again.
func TestRun_KilledWhileItStartsChildren(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"runner.answer_committed", "runner.published"} {
		t.Run(point, func(t *testing.T) {
			r := newBuiltinRig(t)
			id := events.NewRunID()
			nth := map[string]int{"runner.answer_committed": 1, "runner.published": 2}[point]
			dead := r.spawn(fmt.Sprintf("%s[%s]=kill#%d", point, id, nth))
			r.startAs(id, events.KindAgent, "lead", `{}`)
			dead()
			m := twoHelpers()
			r.worker(m)
			r.reaches(id, events.StatusCompleted)
			children := r.childrenOf(id)
			want := []string{string(events.ChildRunID(id, 3, 0)), string(events.ChildRunID(id, 4, 0))}
			if len(children) != 2 || !strings.Contains(fmt.Sprint(children), want[0]) || !strings.Contains(fmt.Sprint(children), want[1]) {
				t.Fatalf("children %v, want %v", children, want)
			}
			if got := r.output(id); got != "help \"a\"\nhelp \"b\"" {
				t.Errorf("the model was told %q", got)
			}
			if n := m.count(id); n != 1 {
				t.Errorf("the model was asked %d times after the kill, want 1", n)
			}
			for _, c := range children {
				if n := strings.Count(strings.Join(r.kinds(c), " "), events.FactStarted); n != 1 {
					t.Errorf("child %s started %d times", c, n)
				}
			}
			r.consistent(append(children, id)...)
		})
	}
}

func twoHelpers() *script {
	return leads(call("delegate", `{"input":"a"}`), call("delegate", `{"input":"b"}`))
}

const childDatabase, childNATS = "HOLDFAST_TEST_RUNNER_DATABASE", "HOLDFAST_TEST_RUNNER_NATS"

// TestMain runs the test binary as a runner process of its own when the
// environment asks for one.
func TestMain(m *testing.M) {
	if os.Getenv(childDatabase) != "" {
		if err := runChild(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// runChild is a whole runner process; it runs until it is killed.
func runChild(ctx context.Context) error {
	docs, err := spec.Parse("test.yaml", []byte(builtinDocuments))
	if err != nil {
		return err
	}
	defs := &definitions{byHash: map[events.Digest]spec.Document{}, current: map[string]events.Digest{}}
	for _, doc := range docs {
		defs.byHash[doc.Digest] = doc
		defs.current[doc.Kind+"/"+doc.Name] = doc.Digest
	}
	newer, err := spec.Parse("newer.yaml", []byte(newClerk)) // what an order may move to
	if err != nil {
		return err
	}
	for _, doc := range newer {
		defs.byHash[doc.Digest] = doc
	}
	log := slog.New(slog.DiscardHandler)
	database := pg.Config{URL: config.Secret(os.Getenv(childDatabase)), Role: "holdfast_runner"}
	pool, err := pg.Open(ctx, database)
	if err != nil {
		return err
	}
	link, err := bus.Connect(ctx, bus.Config{URL: config.Secret(os.Getenv(childNATS)), Name: "child"})
	if err != nil {
		return err
	}
	if err := limitMemory(); err != nil {
		return err
	}
	name := pg.WorkerName("runner")
	beat := pg.NewBeat(database, "runner", name, log)
	if err := beat.Start(ctx); err != nil {
		return err
	}
	go func() { _ = beat.Run(ctx) }()
	cfg := runner.Config{ModelSlots: 16, MaxAttempts: 5, DoctorEvery: time.Hour}
	store := postgres.New(pool)
	s := runner.New(cfg, runner.Deps{Worker: name, Store: store, Bus: link, Heart: beat, Defs: defs, Model: childModel(), Live: link, Log: log})
	in := inbox.New(link, s, cfg, store, beat.Holding)
	if err := in.Start(ctx); err != nil {
		return err
	}
	fmt.Println("ready")
	return s.Run(ctx)
}

// child starts a runner process with more in its environment and waits until it works.
func (r *rig) child(stderr io.Writer, env ...string) *exec.Cmd {
	r.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.CommandContext(r.t.Context(), exe)
	cmd.Env = append(append(os.Environ(), childDatabase+"="+r.db.URL.Reveal(), childNATS+"="+r.nats.URL().Reveal()), env...)
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = cmd.Process.Kill() })
	var ready string
	if _, err := fmt.Fscanln(out, &ready); err != nil {
		r.t.Fatalf("the child did not start: %v", err)
	}
	return cmd
}

// spawn starts a runner process with a failpoint and returns what waits for its
// death.
func (r *rig) spawn(point string) (dead func()) {
	r.t.Helper()
	cmd := r.child(r.t.Output(), failpoint.Env+"="+point)
	return func() {
		r.t.Helper()
		err := cmd.Wait()
		status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
			r.t.Fatalf("the child did not die at %s: %v", point, err)
		}
	}
}
