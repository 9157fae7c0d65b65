//go:build !holdfast_broken_ledger

package tools_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

// truthful says what the other side did.
func truthful(o *outside, rw http.ResponseWriter, which string) {
	o.mu.Lock()
	n := 0
	for body, times := range o.done {
		var args struct{ N json.Number }
		if json.Unmarshal([]byte(body), &args) == nil && args.N.String() == which {
			n += times
		}
	}
	o.mu.Unlock()
	if n == 0 {
		http.Error(rw, `{"error":"no such payment"}`, http.StatusNotFound)
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(rw, `{"count":%d}`, n)
}

// probes counts the kept lookups about a call by what they decided.
func (w *world) probes(c events.CallTool, verdict string, late bool) int {
	return w.count(`SELECT count(*) FROM tools.receipts r WHERE r.effect_id = (SELECT effect_id FROM tools.calls WHERE call_id = $1)
		AND r.body->>'probe' = $2 AND r.late = $3`, string(c.CallID), verdict, late)
}

func (w *world) effectID(c events.CallTool) string { return tools.EffectID(c.Namespace, c.Tool, c.Key) }

// A worker dies between the request and its record, or before the request. The
// lookup decides; there is one effect in the end, whatever it says.
func TestProbe_AfterACrash(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		tool, point, status, settled string
		lookup                       func(*outside, http.ResponseWriter, string)
		epoch                        int64
	}{
		"it happened":        {"pay_probe", "tools.acted", events.CallSucceeded, "probe", truthful, 2},
		"it did not happen":  {"pay_probe", "tools.intent", events.CallSucceeded, "", truthful, 3},
		"nobody can tell":    {"pay_probe_briefly", "tools.acted", events.CallUnknown, "", vague, 1},
		"no word of denials": {"pay_probe_briefly", "tools.acted", events.CallUnknown, "", notFound, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.outside.lookup = tc.lookup
			c := w.call(tc.tool, `{"n":1}`)
			w.killed(c, tc.point)
			a := w.answer(c.CallID, tc.status)
			if a.Settled != tc.settled || a.Epoch != tc.epoch || len(w.answersOf(c.CallID)) != 1 {
				t.Errorf("answers %+v, want one, of epoch %d, settled by %q", w.answersOf(c.CallID), tc.epoch, tc.settled)
			}
			if tc.settled == "probe" && string(a.Result) != `{"found":1}` {
				t.Errorf("result %s", a.Result)
			}
			if tc.status == events.CallUnknown && a.InDoubt != tools.DoubtAsk {
				t.Errorf("in doubt %q, want ask", a.InDoubt)
			}
			w.idle()
			w.wantEffects(c, 1)
		})
	}
}

// vague answers without the field that the condition reads.
func vague(_ *outside, rw http.ResponseWriter, _ string) { _, _ = rw.Write([]byte(`{"count":null}`)) }

func notFound(_ *outside, rw http.ResponseWriter, _ string) { http.NotFound(rw, nil) }

// The other side acts and says 500. The run hears nothing until a lookup that
// was down is up again, and the wait holds no message.
func TestProbe_LookupDownThenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var up atomic.Bool
	w.outside.lookup = func(o *outside, rw http.ResponseWriter, which string) {
		if !up.Load() {
			rw.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		truthful(o, rw, which)
	}
	w.start()
	c := w.call("pay_probe", `{"mode":"500","n":1}`)
	w.send(c, "")
	w.until("two lookups decided nothing", func() bool { return w.probes(c, "undecided", false) == 2 })
	if n := len(w.answersOf(c.CallID)); n != 0 {
		t.Errorf("the run heard %d answers before anything was decided", n)
	}
	second := c
	second.CallID = events.NewCallID(c.RunID, 99, 0) // another call under the same key waits for the same lookup
	w.send(second, "")
	w.until("the second call waits too", func() bool { return w.count(`SELECT count(*) FROM tools.v_probes`) == 2 })
	up.Store(true)
	for _, id := range []events.CallID{c.CallID, second.CallID} {
		if a := w.answer(id, events.CallSucceeded); a.Settled != "probe" || string(a.Result) != `{"found":1}` || a.Replayed != (id != c.CallID) {
			t.Errorf("answer %+v", a)
		}
	}
	w.idle()
	w.wantEffects(c, 1)
}

// The worker that looks is killed before it records what it saw.
func TestProbe_AnotherWorkerTakesOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.outside.lookup = truthful
	c := w.call("pay_probe", `{"mode":"500","n":2}`)
	w.killed(c, "tools.looked")
	w.answer(c.CallID, events.CallSucceeded)
	w.idle()
	w.wantEffects(c, 1)
}

// What a lookup saw counts only for the doubt that it was made for: an
// operator's verdict wins.
func TestProbe_FencedByAVerdict(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seen, release := make(chan struct{}), make(chan struct{})
	opened := sync.OnceFunc(func() { close(release) })
	t.Cleanup(opened)
	once := sync.OnceFunc(func() { close(seen) })
	w.outside.lookup = func(_ *outside, rw http.ResponseWriter, _ string) {
		once()
		<-release
		rw.WriteHeader(http.StatusNotFound) // would act again
	}
	p := w.start()
	c := w.call("pay_probe", `{"mode":"500","n":3}`)
	w.send(c, "")
	select {
	case <-seen:
	case <-time.After(20 * time.Second):
		t.Fatal("nobody looks")
	}
	if _, err := p.service.Resolve(t.Context(), tools.Resolve{Namespace: c.Namespace, EffectID: w.effectID(c), Verdict: events.Happened, By: "ines"}); err != nil {
		t.Fatal(err)
	}
	opened()
	if a := w.answer(c.CallID, events.CallSucceeded); a.Settled != "ines" || a.Epoch != 2 {
		t.Errorf("answer %+v", a)
	}
	w.until("the lookup is kept as late", func() bool { return w.probes(c, "not_happened", true) == 1 })
	w.idle()
	if state, epoch := w.effect(c); state != tools.EffectSucceeded || epoch != 2 {
		t.Errorf("the effect is %s in epoch %d", state, epoch)
	}
	w.wantEffects(c, 1)
}

// The outcome of the epoch in force, however late, ends the looking; that of
// a lookup after it, or of an old epoch, changes nothing.
func TestProbe_EndedByALateOutcome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.outside.lookup = vague
	p := w.start()
	c := w.call("pay_probe", `{"n":4}`)
	call := tools.Call{ID: c.CallID, RunID: c.RunID, Namespace: c.Namespace, Tool: c.Tool, ToolDigest: c.ToolDigest, Pool: "default",
		Args: c.Args, ArgsDigest: c.ArgsDigest, MintedKey: c.Key, Key: c.Key, Status: "open"}
	at := tools.Attempt{CallID: c.CallID, EffectID: w.effectID(c), ID: "t-1", Epoch: 1}
	if began, err := p.store.Begin(t.Context(), tools.Begin{Call: call, EffectID: at.EffectID, AttemptID: at.ID, Worker: p.name, Lease: time.Second}); err != nil || began.Epoch != 1 {
		t.Fatal(began, err)
	}
	told, ok, err := p.store.Doubt(t.Context(), tools.Doubt{Call: call, EffectID: at.EffectID, From: tools.Claim{Epoch: 1, AttemptID: at.ID},
		Worker: p.name, InDoubt: tools.DoubtProbe, LookIn: time.Millisecond})
	if err != nil || !ok || len(told) != 0 {
		t.Fatal(told, ok, err)
	}
	w.until("it is looked up", func() bool { return w.probes(c, "undecided", false) > 0 })
	told, mine, err := p.store.Finish(t.Context(), tools.Finish{Attempt: at, Worker: p.name, Acted: true,
		Conclusion: tools.Conclusion{State: tools.EffectSucceeded}, Result: []byte(`{"late":true}`)})
	if err != nil || !mine || len(told) != 1 || string(told[0].Result) != `{"late":true}` {
		t.Fatal(told, mine, err)
	}
	if n := w.count(`SELECT count(*) FROM tools.effects WHERE next_attempt_at IS NOT NULL OR wake_at IS NOT NULL`); n != 0 {
		t.Error("it is still to be looked up")
	}
	for _, epoch := range []int64{0, 1} {
		told, mine, err := p.store.Looked(t.Context(), tools.Look{ID: fmt.Sprint("p-", epoch), EffectID: at.EffectID, Epoch: epoch, CallID: c.CallID, InDoubt: tools.DoubtAsk})
		if err != nil || mine || len(told) != 0 {
			t.Errorf("epoch %d: %v %v %v", epoch, told, mine, err)
		}
	}
	if state, _ := w.effect(c); state != tools.EffectSucceeded {
		t.Errorf("the effect is %s", state)
	}
}

// A tool that never gets through is not begun for ever because lookups say so.
func TestProbe_DeniesOnlySoOften(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.outside.lookup = notFound
	w.start()
	c := w.call("pay_probe", `{"mode":"500","n":5}`)
	w.send(c, "")
	w.until("it was denied once", func() bool { return w.probes(c, "not_happened", false) > 0 })
	if _, err := w.db.Pool.Exec(t.Context(), `INSERT INTO tools.receipts SELECT effect_id, 'x' || g, epoch, worker, late, body FROM tools.receipts, generate_series(1, 10) g
		WHERE effect_id = $1 AND body->>'probe' = 'not_happened' ON CONFLICT DO NOTHING`, w.effectID(c)); err != nil {
		t.Fatal(err)
	}
	if a := w.answer(c.CallID, events.CallUnknown); a.InDoubt != tools.DoubtAsk {
		t.Errorf("answer %+v", a)
	}
	w.idle()
}
