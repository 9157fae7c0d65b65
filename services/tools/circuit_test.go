package tools_test

import (
	"context"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
	"github.com/holdfast-run/holdfast/services/tools/kind"
)

// circuitYAML has a tool that is tried once.
const circuitYAML = `
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: pay_once}
spec:
  description: pays, and is not tried again
  input: {type: object}
  effect: write
  timeout: 2s
  http: {method: POST, url: "${env.HOLDFAST_TOOL_OUTSIDE}/plain", retry: {attempts: 1}}
`

// sending has the kinds send through out.
func (w *world) sending(out kind.Sender) []tools.Kind {
	return kind.All(kind.Config{Egress: out, LookupEnv: w.lookup, ReadFile: os.ReadFile})
}

func guarded(t *testing.T, c egress.Config) *egress.Client {
	t.Helper()
	allow, err := egress.ParseAllow([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	c.Allow = allow
	return egress.New(c)
}

// While a host's circuit is open nothing is sent to it, which is no doubt and no
// attempt: the calls wait as rows, hold no message and no slot, say why, and act
// once when it closes.
func TestCircuit_OpenIsNotSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	out := guarded(t, egress.Config{Breaker: egress.NewBreaker(egress.BreakerConfig{Failures: 2, Open: 1500 * time.Millisecond})})
	w.startWith(w.sending(out))
	for range 2 {
		if _, err := out.Do(t.Context(), egress.Request{Method: "POST", URL: w.outside.URL + "/plain", Body: []byte(`{"mode":"always","status":503}`)}); err != nil {
			t.Fatal(err)
		}
	}
	calls := []events.CallTool{w.call("pay", `{"n":1}`), w.call("pay_key", `{"n":2}`), w.call("pay_once", `{"n":3}`), w.call("look", `{"what":"x"}`)}
	for _, c := range calls {
		w.send(c, "")
	}
	w.until("all wait and say why", func() bool {
		return w.count(`SELECT count(*) FROM tools.v_delayed WHERE attempts = 0 AND error LIKE '% failed 2 times in a row, so nothing is sent to it for %'
			AND next_at > clock_timestamp() AND next_at < clock_timestamp() + interval '2.5 s'`) == len(calls)
	})
	w.idle()
	if n := w.outside.arrivals.Load(); n != 2 {
		t.Fatalf("%d requests arrived, want the 2 that opened the circuit", n)
	}
	if n := w.count(`SELECT count(*) FROM tools.effects WHERE state <> 'intent' OR doubted OR attempt_id IS NOT NULL`) + w.count(`SELECT count(*) FROM tools.receipts`); n != 0 {
		t.Errorf("%d effects in another state or receipts of what was never sent\n%s", n, w.rows())
	}
	for _, c := range calls {
		w.answer(c.CallID, events.CallSucceeded)
		w.wantEffects(c, 1)
	}
	if n := w.count(`SELECT count(*) FROM tools.effects WHERE attempts <> 1`) + w.count(`SELECT count(*) FROM tools.calls WHERE tool = 'look' AND attempts <> 1`); n != 0 {
		t.Errorf("%d calls count more than the attempt that was made\n%s", n, w.rows())
	}
}

// shut says that the circuit is open, so many times.
type shut struct {
	kind.Sender
	times atomic.Int64
}

func (s *shut) Do(ctx context.Context, r egress.Request) (egress.Response, error) {
	if s.times.Add(-1) >= 0 {
		return egress.Response{}, &egress.Error{Err: &egress.OpenError{Host: "pay.example.com", Failures: 5, Wait: 10 * time.Millisecond}}
	}
	return s.Sender.Do(ctx, r)
}

// A circuit that is found open again and again uses up no attempts: a call that
// may be tried once is still tried.
func TestCircuit_UsesUpNoAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := &shut{Sender: guarded(t, egress.Config{})}
	s.times.Store(3)
	w.startWith(w.sending(s))
	c := w.call("pay_once", `{"n":1}`)
	w.send(c, "")
	w.answer(c.CallID, events.CallSucceeded)
	w.wantEffects(c, 1)
	if _, epoch := w.effect(c); epoch != 4 {
		t.Errorf("it was begun %d times, want 4", epoch)
	}
	if n := w.count(`SELECT attempts FROM tools.effects`); n != 1 {
		t.Errorf("%d attempts count, want 1", n)
	}

	// A read is the same, and what cannot be reached still uses up its attempts.
	s.times.Store(2)
	read := w.call("look", `{"what":"y"}`)
	w.send(read, "")
	w.answer(read.CallID, events.CallSucceeded)
	dead := w.call("gone", `{}`)
	w.send(dead, "")
	w.until("an attempt counts", func() bool {
		return w.count(`SELECT count(*) FROM tools.effects WHERE tool = 'gone' AND attempts > 0`) == 1
	})
	if n := w.count(`SELECT attempts FROM tools.calls WHERE tool = 'look'`); n != 1 || !strings.Contains(w.rows(), "gone intent") {
		t.Errorf("%d attempts of the read count, want 1\n%s", n, w.rows())
	}
}
