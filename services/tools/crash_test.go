//go:build !holdfast_broken_ledger

package tools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

// settled waits until a survivor may take over: it must have been fresh for a
// while.
func (w *world) settled() {
	w.t.Helper()
	w.until("a worker has been fresh for 2 s", func() bool {
		return w.count(`SELECT count(*) FROM tools.workers WHERE fresh_since < clock_timestamp() - interval '2 s' AND beat > clock_timestamp() - interval '1 s'`) > 0
	})
}

// The other side has committed and nothing is recorded: where it honours the
// key the call is sent again with the same one, and there is one effect.
func TestCaseD01_KilledAfterTheActWithAHonouredKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.call("pay_key", `{"n":1}`)
	w.killed(c, "tools.acted")
	a := w.answer(c.CallID, events.CallSucceeded)
	if a.Epoch != 2 {
		t.Errorf("epoch %d, want 2", a.Epoch)
	}
	if n, keys := w.outside.requests(c), w.outside.keysOf(c); n != 2 || len(keys) != 1 || keys[0] != c.Key {
		t.Errorf("%d requests with the keys %v, want 2 with %s", n, keys, c.Key)
	}
	w.idle()
	w.wantEffects(c, 1)
}

// Where it does not, a person is asked; each verdict ends it, and the act is
// never repeated blindly.
func TestCaseD01_KilledAfterTheActWithoutKeys(t *testing.T) {
	t.Parallel()
	for verdict, want := range map[string]struct {
		status  string
		effects int
		result  string
	}{
		events.Happened:    {events.CallSucceeded, 1, `{"paid":12345678901234567890}`},
		events.NotHappened: {events.CallSucceeded, 2, ""}, // the person was wrong; the ledger did what it was told, once
		events.GiveUp:      {events.CallUnknown, 1, ""},
	} {
		t.Run(verdict, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := w.call("pay", `{"n":2}`)
			w.killed(c, "tools.acted")
			doubt := w.answer(c.CallID, events.CallUnknown)
			if doubt.InDoubt != "ask" || doubt.Epoch != 1 || doubt.Settled != "" {
				t.Errorf("doubt %+v", doubt)
			}
			w.idle()
			w.wantEffects(c, 1)

			settle := events.ControlTool{CallID: c.CallID, RunID: c.RunID, Action: events.ControlSettle, Verdict: verdict, Epoch: doubt.Epoch, By: "ines"}
			if want.result != "" {
				settle.Result = json.RawMessage(want.result)
			}
			id := "settle:" + string(c.CallID) + "-d5"
			w.control(id, settle)
			var a events.ToolCompleted
			w.until("the verdict is answered", func() bool {
				all := w.answersOf(c.CallID)
				a = all[len(all)-1]
				return a.Status == want.status && a.Epoch > doubt.Epoch
			})
			if want.result != "" && string(a.Result) != want.result {
				t.Errorf("result %s, want %s", a.Result, want.result)
			}
			if verdict != events.NotHappened && a.Settled != "ines" {
				t.Errorf("settled by %q", a.Settled)
			}
			if n := w.count(`SELECT count(*) FROM tools.v_landed WHERE id = $1`, id); n != 1 {
				t.Errorf("the control was recorded %d times", n)
			}
			// A second verdict changes nothing.
			settle.Verdict, settle.Result = events.NotHappened, nil
			w.control(id+"-late", settle)
			w.until("the late verdict is taken", func() bool { return w.count(`SELECT count(*) FROM tools.v_landed`) == 2 })
			w.idle()
			w.wantEffects(c, want.effects)
		})
	}
}

// Before the request leaves, the ledger cannot tell either: the process that
// knew is dead.
func TestCaseD01_KilledBeforeTheRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.call("pay", `{"n":3}`)
	w.killed(c, "tools.intent")
	w.answer(c.CallID, events.CallUnknown)
	w.wantEffects(c, 0)
	w.control("settle:x", events.ControlTool{CallID: c.CallID, RunID: c.RunID, Action: events.ControlSettle, Verdict: events.NotHappened, By: "ines"})
	w.answer(c.CallID, events.CallSucceeded)
	w.idle()
	w.wantEffects(c, 1)
}

func TestCaseD01_KilledAfterTheRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.call("pay", `{"n":4}`)
	w.killed(c, "tools.recorded")
	if a := w.answer(c.CallID, events.CallSucceeded); a.Epoch != 1 {
		t.Errorf("answer %+v", a)
	}
	w.idle()
	w.wantEffects(c, 1)
}

func TestCrash_AReadIsSimplyRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.call("look", `{"what":"shop-09"}`)
	w.killed(c, "tools.acted")
	w.answer(c.CallID, events.CallSucceeded)
	w.idle()
	if n := w.count(`SELECT count(*) FROM tools.effects`); n != 0 {
		t.Errorf("%d effects", n)
	}
}

// gateKind hands control over an act to the test.
type gateKind struct {
	tools.Kind
	before func(ctx context.Context, r tools.Request)
}

func (g gateKind) Act(ctx context.Context, r tools.Request) tools.Outcome {
	g.before(ctx, r)
	return g.Kind.Act(ctx, r)
}

// A redelivery of what a live worker holds is neither taken over nor
// acknowledged away, however long the act takes: the lease is over after a
// second, the worker lives.
func TestCaseD04_ALiveOwnerIsNeverTakenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	second := w.start()
	w.settled()
	c := w.call("pay_slow", `{"n":5}`)
	release := w.outside.hold(c)
	w.send(c, "")
	w.until("it acts", func() bool { return w.outside.requests(c) == 1 })
	for i := range 3 { // nudges reach both processes
		w.send(c, fmt.Sprintf(":n%d", i))
	}
	until := time.Now().Add(5 * time.Second)
	w.until("the lease is long over", func() bool { return time.Now().After(until) })
	if state, epoch := w.effect(c); state != tools.EffectIntent || epoch != 1 {
		t.Errorf("the effect is %s in epoch %d", state, epoch)
	}
	lag, err := w.bus.Lag(t.Context(), events.StreamTools, events.ToolConsumer("default"))
	if err != nil {
		t.Fatal(err)
	}
	if lag.Pending+lag.AckPending == 0 {
		t.Error("the message was acknowledged while its worker works")
	}
	release()
	w.answer(c.CallID, events.CallSucceeded)
	w.idle()
	w.wantEffects(c, 1)
	_ = second
}

// The intent of a process that lives and knows that it has not acted is
// renewed, never in doubt.
func TestLease_RenewedByTheLiving(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	c := w.call("pay", `{"n":6}`)
	disarm, err := failpoint.Arm(fmt.Sprintf("tools.intent[%s]=sleep:1500ms", c.CallID), "")
	if err != nil {
		t.Fatal(err)
	}
	defer disarm()
	w.send(c, "")
	if a := w.answer(c.CallID, events.CallSucceeded); a.Epoch != 2 {
		t.Errorf("epoch %d, want 2: the lease ran out once", a.Epoch)
	}
	w.wantEffects(c, 1)
}

// lateHeart is late once; fence is what happened meanwhile.
type lateHeart struct {
	tools.Heart
	late  *atomic.Bool
	fence func()
}

func (h lateHeart) Fresh() bool { return !h.late.Load() && h.Heart.Fresh() }

func (h lateHeart) WaitFresh(ctx context.Context) error {
	if h.late.CompareAndSwap(true, false) {
		h.fence()
	}
	return h.Heart.WaitFresh(ctx)
}

// A process that slept between its intent and its act reads its claim again
// before it acts, and does not act when somebody has taken it.
func TestFence_AClaimThatWasTakenIsNotActedOn(t *testing.T) {
	t.Parallel()
	for taken, effects := range map[bool]int{true: 0, false: 1} {
		t.Run(fmt.Sprintf("taken %v", taken), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var late atomic.Bool
			late.Store(true)
			fenced := make(chan struct{})
			w.startWith(kinds(w.lookup), func(h tools.Heart) tools.Heart {
				return lateHeart{h, &late, func() {
					defer close(fenced)
					if !taken {
						return
					}
					_, err := w.db.Pool.Exec(context.Background(), `UPDATE tools.effects SET epoch = epoch + 1, attempt_id = 't-other', worker = 'other', state = 'unknown', in_doubt = 'ask'`)
					if err != nil {
						t.Error(err)
					}
				}}
			})
			c := w.call("pay", `{"n":14}`)
			w.send(c, "")
			<-fenced
			want := events.CallSucceeded
			if taken {
				want = events.CallUnknown // the message comes back and finds the doubt
			}
			w.answer(c.CallID, want)
			w.wantEffects(c, effects)
		})
	}
}

// A handler that fails between intent and act leaves an intent that its process
// renews when the message comes back.
func TestLease_RenewedAfterAFailedHandler(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	c := w.call("pay", `{"n":7}`)
	disarm, err := failpoint.Arm(fmt.Sprintf("tools.intent[%s]=error", c.CallID), "")
	if err != nil {
		t.Fatal(err)
	}
	defer disarm()
	w.send(c, "")
	if a := w.answer(c.CallID, events.CallSucceeded); a.Epoch != 2 {
		t.Errorf("epoch %d, want 2", a.Epoch)
	}
	for _, a := range w.answersOf(c.CallID) {
		if a.Status == events.CallUnknown {
			t.Error("it was in doubt")
		}
	}
	w.wantEffects(c, 1)
}

// A process whose act ended and whose record was lost does not know more than a
// dead one.
func TestLost_OwnAttemptIsInDoubt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	c := w.call("pay", `{"n":8}`)
	disarm, err := failpoint.Arm(fmt.Sprintf("tools.acted[%s]=error", c.CallID), "")
	if err != nil {
		t.Fatal(err)
	}
	defer disarm()
	w.send(c, "")
	w.answer(c.CallID, events.CallUnknown)
	w.idle()
	w.wantEffects(c, 1)
}

// stopped sends c to a real process that is stopped in the middle of its act,
// and waits until a survivor has marked the effect.
func (w *world) stopped(c events.CallTool) (wake func()) {
	w.t.Helper()
	release := w.outside.hold(c)
	p := w.fork("")
	w.send(c, "")
	w.until("it acts", func() bool { return w.outside.requests(c) == 1 })
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		w.t.Fatal(err)
	}
	w.start()
	w.answer(c.CallID, events.CallUnknown)
	return func() {
		release()
		if err := p.Signal(syscall.SIGCONT); err != nil {
			w.t.Fatal(err)
		}
	}
}

// A worker that was stopped during its act is taken over; when it wakes, its
// outcome in the epoch in force settles the doubt.
func TestCaseD07_ALateAnswerSettlesTheDoubt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.call("pay_slow", `{"n":9}`)
	wake := w.stopped(c)
	wake()
	if a := w.answer(c.CallID, events.CallSucceeded); a.Epoch != 1 {
		t.Errorf("answer %+v", a)
	}
	w.idle()
	w.wantEffects(c, 1)
}

// After the doubt was settled, a late outcome is kept as a receipt and changes
// nothing.
func TestCaseD07_ALateAnswerAfterTheVerdictIsAReceipt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.call("pay_slow", `{"n":10}`)
	wake := w.stopped(c)
	w.control("settle:y", events.ControlTool{CallID: c.CallID, RunID: c.RunID, Action: events.ControlSettle, Verdict: events.GiveUp, Epoch: 1, By: "ines"})
	w.until("it is settled", func() bool { _, epoch := w.effect(c); return epoch == 2 })
	wake()
	w.until("the late outcome is kept", func() bool {
		return w.count(`SELECT count(*) FROM tools.receipts WHERE late AND epoch = 1 AND body->>'verdict' = 'happened'`) == 1
	})
	if state, epoch := w.effect(c); state != tools.EffectUnknown || epoch != 2 {
		t.Errorf("the effect is %s in epoch %d, want unknown in 2", state, epoch)
	}
	w.wantEffects(c, 1)
}

// Postgres goes away during an act: the outcome is recorded when it is back,
// nothing is repeated and nothing is in doubt.
func TestPostgresAway_DuringTheAct(t *testing.T) {
	t.Parallel()
	srv := pgtest.NewServer(t)
	pool, err := pg.Open(t.Context(), pg.Config{URL: srv.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	w := newWorldOn(t, &pgtest.DB{URL: srv.URL(), Pool: pool})
	w.start()
	w.start()
	w.settled()
	c := w.call("pay_slow", `{"n":13}`)
	release := w.outside.hold(c)
	w.send(c, "")
	w.until("it acts", func() bool { return w.outside.requests(c) == 1 })
	srv.Stop()
	release()
	back := time.Now().Add(4 * time.Second)
	w.until("the message has come back in vain", func() bool { return time.Now().After(back) })
	srv.Start()
	if a := w.answer(c.CallID, events.CallSucceeded); a.Epoch != 1 {
		t.Errorf("answer %+v", a)
	}
	w.idle()
	for _, a := range w.answersOf(c.CallID) {
		if a.Status != events.CallSucceeded {
			t.Errorf("answer %+v", a)
		}
	}
	w.wantEffects(c, 1)
}

// Orderly stops finish acts in flight.
func TestStop_FinishesActs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var acting atomic.Bool
	p := w.start(func(k tools.Kind) tools.Kind {
		return gateKind{k, func(context.Context, tools.Request) { acting.Store(true); time.Sleep(300 * time.Millisecond) }}
	})
	c := w.call("pay", `{"n":11}`)
	w.send(c, "")
	w.until("it acts", acting.Load)
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	w.answer(c.CallID, events.CallSucceeded)
	w.wantEffects(c, 1)
}

// A kind that panics leaves an outcome that nobody knows.
func TestPanic_IsInDoubt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(func(k tools.Kind) tools.Kind {
		return gateKind{k, func(context.Context, tools.Request) { panic("a bug") }}
	})
	c := w.call("pay", `{"n":12}`)
	w.send(c, "")
	if a := w.answer(c.CallID, events.CallUnknown); a.Error == nil || a.Error.Code != "panic" {
		t.Errorf("answer %+v", a)
	}
}
