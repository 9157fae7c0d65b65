package tools_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
	"github.com/holdfast-run/holdfast/services/tools/postgres"
)

func (w *world) halt(p *process, scope, name string) tools.Stop {
	w.t.Helper()
	s, err := p.service.StopWrites(w.t.Context(), tools.Stop{Namespace: "default", Scope: scope, Name: name, Note: "the shop is wrong", By: "maria"})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) release(p *process, s tools.Stop) {
	w.t.Helper()
	if got, err := p.service.StartWrites(w.t.Context(), "default", s.ID, "ines", "mended"); err != nil || got.EndedBy != "ines" || got.EndedAt.IsZero() {
		w.t.Fatalf("release: %+v, %v", got, err)
	}
}

// held waits until so many calls are held.
func (w *world) held(n int) {
	w.t.Helper()
	w.until(fmt.Sprintf("%d calls are held", n), func() bool { return w.count(`SELECT count(*) FROM tools.v_held`) == n })
}

// run makes a run of an agent that the runner would have.
func (w *world) run(agent string, parent events.RunID) events.RunID {
	w.t.Helper()
	id := events.NewRunID()
	_, err := w.db.Pool.Exec(w.t.Context(), `
		INSERT INTO runner.runs (run_id, namespace, kind, name, digest, status, seq, input, labels, trigger, principal, parent_run_id, accepted_at)
		VALUES ($1, 'default', 'agent', $2, 'sha256:x', 'waiting', 2, '{}', '{}', '{}', 'test', nullif($3, ''), clock_timestamp())`,
		string(id), agent, string(parent))
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

// With two replicas in full work, a stop that one of them was told ends the
// arrivals of both; reads go on; after the release each write happens once.
func TestStop_NothingArrives(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, _ := w.start(), w.start()
	var calls []events.CallTool
	send := func(n int) {
		for range n {
			tool := "pay"
			if len(calls)%2 == 1 {
				tool = "pay_key"
			}
			c := w.call(tool, fmt.Sprintf(`{"n":%d}`, len(calls)))
			calls = append(calls, c)
			w.send(c, "")
		}
	}
	send(50)
	w.until("writes arrive", func() bool { return w.outside.arrivals.Load() > 5 })
	stop := w.halt(one, tools.StopAll, "")
	for told := time.Now(); time.Since(told) < time.Second; time.Sleep(100 * time.Millisecond) {
		send(2)
	}
	before := w.outside.arrivals.Load()
	send(10)
	look := w.call("look", `{"what":"stopped"}`)
	w.send(look, "")
	w.answer(look.CallID, events.CallSucceeded)
	w.idle() // no message is held
	if n := w.outside.arrivals.Load(); n != before+1 {
		t.Errorf("%d arrivals after the stop beside the read", n-before-1)
	}
	open := w.count(`SELECT count(*) FROM tools.calls WHERE status = 'open'`)
	if held := w.count(`SELECT count(*) FROM tools.v_held`); held < 20 || held != open {
		t.Errorf("%d calls are held, %d are open", held, open)
	}
	if n := w.count(`SELECT count(*) FROM tools.effects WHERE worker IS NOT NULL AND state = 'intent'`); n != 0 {
		t.Errorf("%d intents have an owner", n)
	}
	again := w.halt(one, tools.StopAll, "")
	if again.ID != stop.ID || again.Held != int64(open) {
		t.Errorf("a second stop: %+v, want %s with %d held", again, stop.ID, open)
	}
	found, err := one.service.Effects(t.Context(), tools.Filter{Namespace: "default", State: tools.EffectHeld, Limit: 500})
	if err != nil || len(found) != open || !found[0].Held() || found[0].HeldBy != stop.ID {
		t.Errorf("%d effects are listed as held: %v", len(found), err)
	}
	w.release(one, stop)
	for _, c := range calls {
		w.answer(c.CallID, events.CallSucceeded)
		w.wantEffects(c, 1)
		if n := w.outside.requests(c); n != 1 {
			t.Errorf("%s: %d requests", c.Args, n)
		}
	}
	w.idle()
}

// A stop of a tool or an agent holds what it names and nothing else; runs that
// an agent's runs have started are its own. What two stops hold waits for both.
func TestStop_OfAToolAndAnAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.start()
	pricing := w.run("pricing", "")
	child := w.run("helper", pricing)
	other := w.run("other", "")
	tool, agent := w.halt(p, tools.StopTool, "pay"), w.halt(p, tools.StopAgent, "pricing")
	calls := map[string]events.CallTool{}
	for i, c := range []struct {
		name string
		run  events.RunID
		tool string
	}{
		{"other tool, other agent", other, "pay_key"}, {"tool", other, "pay"}, {"agent", pricing, "pay_key"}, {"child", child, "pay_key"}, {"both", pricing, "pay"},
	} {
		calls[c.name] = callOf(t, c.run, i+1, c.tool, fmt.Sprintf(`{"n":%d}`, i))
		w.send(calls[c.name], "")
	}
	w.held(4)
	w.answer(calls["other tool, other agent"].CallID, events.CallSucceeded)
	w.release(p, tool)
	w.answer(calls["tool"].CallID, events.CallSucceeded)
	w.until("what both stops held is held by the other", func() bool {
		return w.count(`SELECT count(*) FROM tools.v_held WHERE stop_id = $1`, agent.ID) == 3
	})
	w.wantEffects(calls["both"], 0)
	// What a run and its children changed is one query.
	found, err := p.service.Effects(t.Context(), tools.Filter{Namespace: "default", RunID: pricing, Limit: 10})
	if err != nil || len(found) != 3 {
		t.Errorf("the run and its child have %d effects: %v", len(found), err)
	}
	// A run that is cancelled takes its held call back.
	gone := calls["child"]
	w.control("revoke:"+string(gone.CallID), events.ControlTool{Action: events.ControlRevoke, CallID: gone.CallID, RunID: gone.RunID, By: "maria"})
	w.answer(gone.CallID, "revoked")
	w.release(p, agent)
	w.answer(calls["both"].CallID, events.CallSucceeded)
	w.answer(calls["agent"].CallID, events.CallSucceeded)
	w.idle()
	for name, c := range calls {
		want := 1
		if name == "child" {
			want = 0
		}
		w.wantEffects(c, want)
	}
}

// A stop that comes between intent and act holds the act; a worker that dies
// there leaves an effect that waits with its doubt; a yes that runs out while
// its call is held does not act.
func TestStop_BetweenIntentAndAct(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.start()
	late := w.call("pay", `{"n":1}`)
	disarm, err := failpoint.Arm(fmt.Sprintf("tools.intent[%s]=sleep:800ms", late.CallID), "")
	if err != nil {
		t.Fatal(err)
	}
	defer disarm()
	w.send(late, "")
	w.until("the intent is committed", func() bool {
		return w.count(`SELECT count(*) FROM tools.effects WHERE state = 'intent' AND attempt_id IS NOT NULL`) == 1
	})
	stop := w.halt(p, tools.StopAll, "")
	yes := w.call("gated", `{"n":2}`)
	w.approve(&yes, "approved", time.Hour, nil)
	w.send(yes, "")
	w.held(2)
	w.idle()
	w.wantEffects(late, 0)
	if _, err := w.db.Pool.Exec(t.Context(), `UPDATE approvals.requests SET valid_until = clock_timestamp() - interval '1 s'`); err != nil {
		t.Fatal(err)
	}
	w.release(p, stop)
	w.answer(late.CallID, events.CallSucceeded)
	w.answer(yes.CallID, events.CallExpired)
	w.idle()
	w.wantEffects(late, 1)
	w.wantEffects(yes, 0)
}

func TestStop_TheWorkerDies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, asked := w.call("pay_key", `{"n":1}`), w.call("pay", `{"n":2}`)
	first := w.fork(fmt.Sprintf("tools.acted[%s]=kill", c.CallID))
	w.send(c, "")
	<-first.dead
	second := w.fork("")
	store := postgres.New(w.db.Open(t, "holdfast_tools"))
	stop, _, err := store.PutStop(t.Context(), tools.Stop{ID: "stop-1", Namespace: "default", Scope: tools.StopAll, Note: "n", By: "maria"})
	if err != nil {
		t.Fatal(err)
	}
	w.held(1) // taken over from the dead one, and not sent again
	w.send(asked, "")
	w.held(2)
	if err := second.Kill(); err != nil {
		t.Fatal(err)
	}
	<-second.dead
	p := w.start()
	w.release(p, stop)
	w.answer(c.CallID, events.CallSucceeded)
	w.answer(asked.CallID, events.CallSucceeded)
	w.idle()
	w.wantEffects(c, 1)
	w.wantEffects(asked, 1)
	if keys := w.outside.keysOf(c); len(keys) != 1 || w.outside.requests(c) != 2 {
		t.Errorf("keys %v in %d requests, want one key in two", keys, w.outside.requests(c))
	}
}

func TestStop_WantsScopeNameAndNote(t *testing.T) {
	t.Parallel()
	w := &tools.Service{}
	for _, s := range []tools.Stop{
		{Scope: "all"}, {Scope: "all", Note: " "}, {Scope: "all", Name: "x", Note: "n"}, {Scope: "tool", Note: "n"}, {Scope: "run", Name: "x", Note: "n"},
		{Scope: "agent", Name: "a b", Note: "n"}, {Scope: "tool", Name: "program/", Note: "n"}, {Scope: "all", Note: strings.Repeat("n", 1001)}, {Scope: "all", Note: "n\x00"},
	} {
		if _, err := w.StopWrites(t.Context(), s); err == nil {
			t.Errorf("%+v is taken", s)
		}
	}
}
