//go:build !holdfast_broken_ledger

package tools_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

// No lookup could tell, and the definition says that nobody is asked.
func TestProbe_ThenFail(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.outside.lookup = vague
	w.start()
	c := w.call("pay_probe_fail", `{"mode":"500","n":1}`)
	w.send(c, "")
	if a := w.answer(c.CallID, events.CallUnknown); a.InDoubt != tools.DoubtFail || a.Settled != "" || len(w.answersOf(c.CallID)) != 1 {
		t.Errorf("answer %+v", a)
	}
	w.idle()
	w.wantEffects(c, 1)
}

// A lookup says that it did not happen, and the yes of the first act is over:
// the second one does not begin.
func TestProbe_TheYesIsOverBeforeTheSecondAct(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	expired := make(chan struct{})
	over := sync.OnceFunc(func() { close(expired) })
	t.Cleanup(over)
	w.outside.lookup = func(o *outside, rw http.ResponseWriter, _ string) {
		<-expired
		http.NotFound(rw, nil)
	}
	w.start()
	c := w.call("gated_probe", `{"mode":"500","n":2}`)
	w.approve(&c, "approved", time.Hour, nil)
	w.send(c, "")
	w.until("it is in doubt", func() bool { return w.count(`SELECT count(*) FROM tools.v_probes`) == 1 })
	if _, err := w.db.Pool.Exec(t.Context(), `UPDATE approvals.requests SET valid_until = clock_timestamp() - interval '1 second'`); err != nil {
		t.Fatal(err)
	}
	over()
	if a := w.answer(c.CallID, events.CallExpired); a.Error == nil || a.Error.Code != tools.CodeApprovalExpired {
		t.Errorf("answer %+v", a)
	}
	w.idle()
	if n := w.outside.requests(c); n != 1 {
		t.Errorf("%d requests, want the first alone", n)
	}
	w.wantEffects(c, 1)
}

// The end of a run is a write too: a stop keeps it here, and it is posted once
// when the stop ends.
func TestStop_HoldsTheEndOfARun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.start()
	r := newReceiver(t, nil)
	stop := w.halt(p, tools.StopAll, "")
	c := w.ended(r.URL, `{"n":1}`, time.Second)
	w.post(c, "")
	w.held(1)
	w.idleOf(events.PoolCallbacks)
	if n := len(r.all()); n != 0 {
		t.Errorf("%d posts under the stop", n)
	}
	w.release(p, stop)
	w.answer(c.CallID, events.CallSucceeded)
	w.idleOf(events.PoolCallbacks)
	if n := len(r.all()); n != 1 {
		t.Errorf("%d posts, want 1", n)
	}
}
