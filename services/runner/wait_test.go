package runner_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

const waitDocuments = `
apiVersion: holdfast/v1
kind: Tool
metadata: {name: await_payment}
spec:
  description: waits for the payment of an order
  effect: read
  input: {type: object, required: [order]}
  signal: {name: payment_received, key: "${args.order}", timeout: 1h}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: await_soon}
spec: {description: waits a second, effect: read, input: {type: object}, signal: {name: soon, timeout: 1s}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: cashier}
spec: {model: scripted, instructions: work, tools: [await_payment, await_soon]}
`

// cashier calls one tool with args and ends with what it was told.
func cashier(tool, args string) *script {
	return &script{answer: func(_ context.Context, q runner.Request, _ int) (runner.Answer, error) {
		if len(q.Entries) == 1 {
			return asks(runner.ModelCall{Tool: tool, Args: json.RawMessage(args)}), nil
		}
		return said(q.Entries[2].Results[0].Text), nil
	}}
}

func (r *rig) signal(s events.Signal) {
	r.t.Helper()
	r.publish(events.RunSubject(s.RunID, events.RunSignal), "signal:"+s.ID, events.TypeSignalRun, s)
}

func (r *rig) output(id events.RunID) (text string) {
	r.t.Helper()
	var raw []byte
	if err := r.sql.QueryRow(r.t.Context(), `SELECT output FROM runner.v_runs WHERE run_id = $1`, string(id)).Scan(&raw); err != nil {
		r.t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &text); err != nil {
		r.t.Fatal(err)
	}
	return text
}

// openWaits reads what the trigger sees, as the trigger.
func (r *rig) openWaits() []string {
	r.t.Helper()
	rows, err := r.db.Open(r.t, "holdfast_trigger").Query(r.t.Context(), `SELECT namespace || ' ' || item || ' ' || name || ' ' || key FROM runner.v_waits ORDER BY since`)
	if err != nil {
		r.t.Fatal(err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			r.t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

func (r *rig) taken(id events.RunID, cause string) (taken bool) {
	r.t.Helper()
	if err := r.db.Open(r.t, "holdfast_trigger").QueryRow(r.t.Context(), `SELECT taken FROM runner.v_signals WHERE run_id = $1 AND cause = $2`, string(id), cause).Scan(&taken); err != nil {
		r.t.Fatal(err)
	}
	return taken
}

// A run that waits holds no claim and no message; the views say what it waits
// for, with the key as it is; the one signal for its wait is its result.
func TestRun_WaitsForASignal(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, waitDocuments)
	key := "Bestellung № 42/'\"\\ \u202e.>*"
	w := r.worker(cashier("await_payment", string(mustMarshal(t, map[string]string{"order": key}))), func(c *runner.Config) { c.DoctorEvery = 100 * time.Millisecond })
	id := r.start(events.KindAgent, "cashier", `{}`)
	r.reaches(id, events.StatusWaiting)
	call := events.NewCallID(id, 2, 0)
	if diff := cmp.Diff([]string{"default signal/" + string(call) + " payment_received " + key}, r.openWaits()); diff != "" {
		t.Errorf("open waits (-want +got):\n%s", diff)
	}
	var waiting string
	var claimed, asked bool
	if err := r.sql.QueryRow(t.Context(), `SELECT waiting, claim_worker IS NOT NULL, (SELECT next_nudge < 'infinity' FROM runner.pending p WHERE p.run_id = r.run_id)
		FROM runner.runs r WHERE run_id = $1`, string(id)).Scan(&waiting, &claimed, &asked); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(waiting, "signal payment_received, key ") || claimed || asked {
		t.Errorf("waiting %q, claimed %v, asked about again %v", waiting, claimed, asked)
	}
	for range 16 {
		if !w.Slots().TryAcquire() {
			t.Fatal("a run that waits holds a model slot")
		}
	}
	for range 16 {
		w.Slots().Release()
	}
	sig := events.Signal{ID: "a-1", RunID: id, Name: "payment_received", Key: key, CallID: call, Data: json.RawMessage(`{"amount":90071992547409931}`)}
	r.signal(sig)
	r.reaches(id, events.StatusCompleted)
	if got := r.output(id); got != `{"amount":90071992547409931}` {
		t.Errorf("the model was told %s", got)
	}
	late := sig
	late.ID = "b-1"
	r.signal(late)
	r.eventually("the second signal is late", func() bool { k := r.kinds(id); return k[len(k)-1] == events.FactLateResult }, func() string { return r.journalText(id) })
	if !r.taken(id, "signal:a-1") || r.taken(id, "signal:b-1") {
		t.Error("the views do not say which one was taken")
	}
	want := []string{events.FactStarted, events.FactModelAnswered, events.FactSignalReceived, events.FactSignalTaken, events.FactModelAnswered, events.FactCompleted, events.FactLateResult}
	if diff := cmp.Diff(want, r.kinds(id)); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
	if open := r.openWaits(); len(open) != 0 {
		t.Errorf("still open: %v", open)
	}
}

func TestRun_SignalTimesOut(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, waitDocuments)
	r.worker(cashier("await_soon", `{}`))
	id := r.start(events.KindAgent, "cashier", `{}`)
	r.reaches(id, events.StatusWaiting)
	if open := r.openWaits(); len(open) != 0 {
		t.Errorf("a wait without a key is offered to others' signals: %v", open)
	}
	r.reaches(id, events.StatusCompleted)
	if got := r.output(id); got != "signal_timeout: no signal soon came within 1s" {
		t.Errorf("the model was told %q", got)
	}
}

// A signal that is sent to a run by id before it waits is kept, also over the
// death of the process, and taken once.
func TestRun_SignalBeforeTheWait(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, waitDocuments)
	gate := make(chan struct{})
	m := cashier("await_payment", `{"order":"7"}`)
	answer := m.answer
	m.answer = func(ctx context.Context, q runner.Request, n int) (runner.Answer, error) {
		select {
		case <-gate:
		case <-ctx.Done():
			return runner.Answer{}, context.Cause(ctx)
		}
		return answer(ctx, q, n)
	}
	first := r.worker(m)
	id := r.start(events.KindAgent, "cashier", `{}`)
	r.eventually("the model is asked", func() bool { return m.count(id) == 1 }, func() string { return r.journalText(id) })
	for range 3 {
		r.signal(events.Signal{ID: "early", RunID: id, Name: "payment_received", Data: json.RawMessage(`"paid"`)})
	}
	r.eventually("the signal is recorded", func() bool { return len(r.kinds(id)) == 2 }, func() string { return r.journalText(id) })
	first.freeze()
	r.worker(m)
	close(gate)
	r.reaches(id, events.StatusCompleted)
	if got := r.output(id); got != "paid" {
		t.Errorf("the model was told %q", got)
	}
}

func TestRun_CancelWhileItWaits(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, waitDocuments)
	r.worker(cashier("await_payment", `{"order":"7"}`))
	id := r.start(events.KindAgent, "cashier", `{}`)
	r.reaches(id, events.StatusWaiting)
	r.command(id, events.RunCancel, events.Command{})
	r.reaches(id, events.StatusCancelled)
	var left int
	if err := r.sql.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM runner.pending) + (SELECT count(*) FROM runner.timers)`).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d rows are left, %v", left, err)
	}
}

func mustMarshal(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := events.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
