package tools_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/internal/bustest"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

// world is one test's Postgres, JetStream, outside world and runs.
type world struct {
	t       *testing.T
	db      *pgtest.DB
	nats    *bustest.Server
	bus     *bus.Bus
	outside *outside

	mu      sync.Mutex
	answers []events.ToolCompleted
	ids     map[string]int // ce-id → how often it was delivered
	minted  int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOn(t, pgtest.New(t))
}

func newWorldOn(t *testing.T, db *pgtest.DB) *world {
	t.Helper()
	w := &world{t: t, db: db, nats: bustest.NewServer(t), outside: newOutside(t), ids: map[string]int{}}
	w.bus = w.nats.Connect(t)
	_, err := w.bus.Consume(t.Context(), bus.Consumption{
		Stream: events.StreamRuns, Durable: events.ConsumerRunner, Workers: 8,
		Handle: func(_ context.Context, m events.Received) error {
			var c events.ToolCompleted
			if err := events.Decode(m.Message, &c); err != nil {
				return err
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.answers = append(w.answers, c)
			w.ids[m.ID]++
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) lookup(name string) (string, bool) {
	switch name {
	case envOutside:
		return w.outside.URL, true
	case envToken:
		return canary, true
	}
	return "", false
}

// start plays a tools process inside the test.
func (w *world) start(wrap ...func(tools.Kind) tools.Kind) *process {
	w.t.Helper()
	ks := kinds(w.lookup)
	for i := range ks {
		for _, f := range wrap {
			ks[i] = f(ks[i])
		}
	}
	return w.startWith(ks)
}

func (w *world) startWith(ks []tools.Kind, heart ...func(tools.Heart) tools.Heart) *process {
	w.t.Helper()
	p, err := startService(w.t.Context(), w.db.URL, w.nats.Connect(w.t), bustest.Log(w.t), ks, heart...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := p.stop(); err != nil {
			w.t.Error(err)
		}
	})
	return p
}

// call makes a call of a new run; index tells calls of one run apart.
func (w *world) call(tool, args string) events.CallTool {
	w.mu.Lock()
	w.minted++
	n := w.minted
	w.mu.Unlock()
	return callOf(w.t, events.NewRunID(), n, tool, args)
}

// send publishes a call. A suffix makes its message id fresh, as a nudge's.
func (w *world) send(c events.CallTool, suffix string) {
	w.t.Helper()
	w.sendTo("default", c, suffix)
}

func (w *world) sendTo(pool string, c events.CallTool, suffix ...string) {
	w.t.Helper()
	body, err := events.Marshal(c)
	if err != nil {
		w.t.Fatal(err)
	}
	id := "call:" + string(c.CallID)
	w.publish(events.Message{Subject: events.ToolSubject(pool, c.CallID), MsgID: id + strings.Join(suffix, ""), ID: id, Source: "/test",
		Type: events.TypeCallTool, Namespace: c.Namespace, Data: body})
}

func (w *world) control(id string, c events.ControlTool) {
	w.t.Helper()
	body, err := events.Marshal(c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.publish(events.Message{Subject: events.ToolControlSubject(c.CallID), MsgID: id, ID: id, Source: "/test",
		Type: events.TypeControlTool, Namespace: "default", Data: body})
}

func (w *world) publish(m events.Message) {
	w.t.Helper()
	if err := w.bus.Publish(w.t.Context(), m); err != nil {
		w.t.Fatal(err)
	}
}

// answersOf lists what the run of a call has heard about it.
func (w *world) answersOf(id events.CallID) []events.ToolCompleted {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []events.ToolCompleted
	for _, a := range w.answers {
		if a.CallID == id {
			out = append(out, a)
		}
	}
	return out
}

// answer waits until the call's last answer has the status.
func (w *world) answer(id events.CallID, status string) events.ToolCompleted {
	w.t.Helper()
	var last events.ToolCompleted
	w.until(fmt.Sprintf("call %s is %s", id, status), func() bool {
		all := w.answersOf(id)
		if len(all) == 0 {
			return false
		}
		last = all[len(all)-1]
		return last.Status == status
	})
	return last
}

func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("waited 30 s: %s; answers %+v; arrivals %d\n%s", what, w.answers, w.outside.arrivals.Load(), w.rows())
		}
	}
}

// idle waits until no message of the pools is left.
func (w *world) idle() {
	w.t.Helper()
	w.until("the tool streams are empty", func() bool {
		for _, durable := range []string{events.ToolConsumer("default"), events.ConsumerToolCtl} {
			lag, err := w.bus.Lag(w.t.Context(), events.StreamTools, durable)
			if err != nil || lag.Pending+lag.AckPending > 0 {
				return false
			}
		}
		return true
	})
}

// rows prints the ledger for a failed test.
func (w *world) rows() string {
	var out string
	err := w.db.Pool.QueryRow(context.Background(), `
SELECT coalesce((SELECT string_agg(format('call %s %s %s acting %s', tool, call_id, status, acting), E'\n') FROM tools.calls), '') || E'\n' ||
       coalesce((SELECT string_agg(format('effect %s %s epoch %s worker %s attempt %s next %s', tool, state, epoch, worker, attempt_id, next_attempt_at), E'\n') FROM tools.effects), '') || E'\n' ||
       coalesce((SELECT string_agg(format('worker %s beat %s fresh %s', name, clock_timestamp() - beat, clock_timestamp() - fresh_since), E'\n') FROM tools.workers WHERE beat > '-infinity'), '')`).Scan(&out)
	if err != nil {
		return err.Error()
	}
	return out
}

func (w *world) count(query string, args ...any) int {
	w.t.Helper()
	var n int
	if err := w.db.Pool.QueryRow(w.t.Context(), query, args...).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (w *world) effect(c events.CallTool) (state string, epoch int64) {
	w.t.Helper()
	err := w.db.Pool.QueryRow(w.t.Context(), `SELECT state, epoch FROM tools.v_effects e WHERE e.effect_id = (SELECT effect_id FROM tools.calls WHERE call_id = $1)`,
		string(c.CallID)).Scan(&state, &epoch)
	if err != nil {
		w.t.Fatal(err)
	}
	return state, epoch
}

func (w *world) wantEffects(c events.CallTool, want int) {
	w.t.Helper()
	if got := w.outside.effects(c); got != want {
		w.t.Errorf("%s %s: %d effects outside, want %d", c.Tool, c.Args, got, want)
	}
}
