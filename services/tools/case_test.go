//go:build !holdfast_broken_ledger

package tools_test

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

// refundArgs is the refund of the payload, as a tool's arguments, with other
// values where changes say so.
func refundArgs(t *testing.T, changes map[string]string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/stripe_refund_created.json")
	if err != nil {
		t.Fatal(err)
	}
	var event struct {
		Data struct{ Object map[string]json.RawMessage }
	}
	if err := json.Unmarshal(b, &event); err != nil {
		t.Fatal(err)
	}
	args := event.Data.Object
	for k, v := range changes {
		args[k] = json.RawMessage(v)
	}
	out, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// The kills of this case are TestCaseD01_Killed… and, for every class and policy,
// TestMatrix.
func TestCaseD01_TheIntentIsOnDiskBeforeTheRequestLeaves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.call("pay_key", refundArgs(t, nil))
	atArrival := make(chan string, 2)
	serve := w.outside.Config.Handler
	w.outside.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var state string
		err := w.db.Pool.QueryRow(r.Context(), `SELECT e.state || ' ' || e.epoch || ' ' || c.status FROM tools.effects e JOIN tools.calls c USING (effect_id)
			WHERE c.call_id = $1 AND e.attempt_id IS NOT NULL`, string(c.CallID)).Scan(&state)
		if err != nil {
			state = err.Error()
		}
		atArrival <- state
		serve.ServeHTTP(rw, r)
	})
	w.start()
	w.send(c, "")
	w.answer(c.CallID, events.CallSucceeded)
	if got := <-atArrival; got != "intent 1 open" {
		t.Errorf("when the request arrived the ledger said %q, want an open intent", got)
	}
	w.wantEffects(c, 1)
}

func TestCaseD02_SameKeyOtherArguments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	// K with amount 10.
	first := w.call("refund", refundArgs(t, map[string]string{"amount": "10"}))
	w.send(first, "")
	a := w.answer(first.CallID, events.CallSucceeded)
	// K with 12: refused, with nothing of the first one's result.
	other := w.call("refund", refundArgs(t, map[string]string{"amount": "12"}))
	w.send(other, "")
	b := w.answer(other.CallID, events.CallMismatch)
	if b.Error == nil || b.Error.Code != tools.CodeMismatch || len(b.Result) > 0 {
		t.Errorf("answer %+v", b)
	}
	if n := w.outside.requests(other); n != 0 {
		t.Errorf("%d requests with the other amount", n)
	}
	// K with 10, keys reordered, and 10.0: the stored result.
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(refundArgs(t, map[string]string{"amount": "10.0"})), &fields); err != nil {
		t.Fatal(err)
	}
	var reversed []string
	for k, v := range fields {
		reversed = append(reversed, `"`+k+`":`+string(v))
	}
	slices.SortFunc(reversed, func(a, b string) int { return strings.Compare(b, a) })
	same := w.call("refund", "{"+strings.Join(reversed, ", ")+"}")
	w.send(same, "")
	if c := w.answer(same.CallID, events.CallSucceeded); !c.Replayed || string(c.Result) != string(a.Result) {
		t.Errorf("the same meaning is answered with %+v, want the stored %s", c, a.Result)
	}
	w.wantEffects(first, 1)
	// K on another tool, and of another tenant, are other keys.
	credit := w.call("refund_otherwise", refundArgs(t, map[string]string{"amount": "13"}))
	tenant := w.call("refund", refundArgs(t, map[string]string{"amount": "12"}))
	tenant.Namespace = "acme"
	for _, c := range []events.CallTool{credit, tenant} {
		w.send(c, "")
		if a := w.answer(c.CallID, events.CallSucceeded); a.Replayed {
			t.Errorf("%s of %s was answered from another key: %+v", c.Tool, c.Namespace, a)
		}
		w.wantEffects(c, 1)
	}
}

// A second call of a key meets an owner that was killed in its act: it waits, it
// acts with nobody, and both get what a person says. The key is not locked.
func TestCaseD04_ADeadOwnerLocksNoKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	args := refundArgs(t, nil)
	first := w.call("refund", args)
	release := w.outside.hold(first)
	defer release()
	p := w.fork("")
	w.send(first, "")
	w.until("it acts", func() bool { return w.outside.requests(first) == 1 })
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.dead
	w.start()
	atOnce := w.call("refund", args)
	w.send(atOnce, "")
	w.until("the second call is attached", func() bool {
		return w.count(`SELECT count(*) FROM tools.calls WHERE call_id = $1 AND status = 'open' AND effect_id IS NOT NULL`, string(atOnce.CallID)) == 1
	})
	for _, c := range []events.CallTool{first, atOnce} { // after the lease
		if a := w.answer(c.CallID, events.CallUnknown); a.Epoch != 1 {
			t.Errorf("answer %+v", a)
		}
	}
	w.control("settle:d04", events.ControlTool{CallID: first.CallID, RunID: first.RunID, Action: events.ControlSettle,
		Verdict: events.Happened, Result: json.RawMessage(`{"receipt":"seen"}`), Epoch: 1, By: "ines"})
	after := w.call("refund", args)
	for _, c := range []events.CallTool{first, atOnce} {
		w.answer(c.CallID, events.CallSucceeded)
	}
	w.send(after, "")
	if a := w.answer(after.CallID, events.CallSucceeded); !a.Replayed || string(a.Result) != `{"receipt":"seen"}` {
		t.Errorf("answer %+v", a)
	}
	w.idle()
	w.wantEffects(first, 1)
}

// The connection is reset after the request was read and done.
func TestCaseD07_ResetAfterTheRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	asked, again := w.call("pay", `{"reset":"pay"}`), w.call("pay_key", `{"reset":"pay_key"}`)
	serve := w.outside.Config.Handler
	reset := map[string]bool{}
	w.outside.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		first := !reset[r.URL.Path]
		reset[r.URL.Path] = true
		w.mu.Unlock()
		if !first {
			serve.ServeHTTP(rw, r)
			return
		}
		serve.ServeHTTP(deaf{rw}, r) // it acts
		conn, _, err := rw.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	})
	w.start()
	w.send(asked, "")
	w.send(again, "")
	if a := w.answer(asked.CallID, events.CallUnknown); a.InDoubt != "ask" || a.Error == nil {
		t.Errorf("answer %+v", a)
	}
	w.answer(again.CallID, events.CallSucceeded)
	w.idle()
	if n, keys := w.outside.requests(again), w.outside.keysOf(again); n != 2 || !slices.Equal(keys, []string{again.Key}) {
		t.Errorf("%d requests with the keys %v, want 2 with %s", n, keys, again.Key)
	}
	w.wantEffects(asked, 1)
	w.wantEffects(again, 1)
}

// deaf swallows an answer.
type deaf struct{ http.ResponseWriter }

func (deaf) Header() http.Header         { return http.Header{} }
func (deaf) WriteHeader(int)             {}
func (deaf) Write(b []byte) (int, error) { return len(b), nil }
