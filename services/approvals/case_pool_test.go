package approvals_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/bustest"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// A process with two connections, both of which somebody else keeps for a while, is
// asked forty times more and gets the decisions of twenty requests twice each, at
// once, while expiries are due and the channel keeps it waiting: no transaction is open
// during a message to people, every decision is taken once, and every run is told.
func TestCaseC09_TwoConnectionsOfTheApprovals(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool, err := pg.Open(t.Context(), pg.Config{URL: db.URL, Role: "holdfast_approvals", MaxConns: 2, AppName: "narrow"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	b := buildOn(t, pool, bustest.New(t))
	b.admin = db.Pool
	b.start()
	b.listen()
	o := newOutside(t)
	b.reviewers(o)
	told, release := make(chan struct{}), make(chan struct{})
	o.next(func(w http.ResponseWriter) {
		close(told)
		<-release
		says(`{"ok":true,"channel":"C0123456789","ts":"1795426600.000001"}`)(w)
	})
	b.ask(in("reviewers"))
	<-told
	if n := b.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'narrow' AND state LIKE 'idle in transaction%'`); n != 0 {
		t.Errorf("%d transactions are open while people are told", n)
	}
	var asked []events.AskApproval
	for range 20 {
		asked = append(asked, b.ask())
	}
	var given atomic.Int64
	for range 2 {
		c, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(1500*time.Millisecond, func() { c.Release(); given.Add(1) })
	}
	close(release)
	var more []events.AskApproval
	for i := range 40 {
		var change []func(*events.AskApproval)
		if i%2 == 1 {
			change = append(change, expiresIn(time.Millisecond), in("reviewers"))
		}
		a := question(change...)
		b.publish(a, "ask:"+string(a.ApprovalID))
		more = append(more, a)
	}
	var deciding sync.WaitGroup
	for _, a := range asked {
		for range 2 {
			deciding.Go(func() {
				if _, err := b.as("ann").Decide(t.Context(), a.ApprovalID, yes); err != nil {
					t.Errorf("a decision beside the others: %v", err)
				}
			})
		}
	}
	deciding.Wait()
	if given.Load() != 2 {
		t.Error("the decisions were taken before the connections were given back: the pool was not narrow")
	}
	for i, a := range more {
		want := events.Approve
		if i%2 == 1 {
			want = events.Expired
		} else {
			b.waitState(a.ApprovalID, "pending")
			if _, err := b.as("ann").Decide(t.Context(), a.ApprovalID, yes); err != nil {
				t.Error(err)
			}
		}
		if got := b.decision(a.ApprovalID).Decision; got != want {
			t.Errorf("request %d: %s, want %s", i, got, want)
		}
	}
	for _, a := range asked {
		if got := b.decision(a.ApprovalID).Decision; got != events.Approve {
			t.Errorf("the run is told %s", got)
		}
	}
	if n := b.count(`SELECT count(*) FROM approvals.decisions WHERE outcome = 'decided'`); n != 60 { // forty by people, twenty by the time
		t.Errorf("%d decisions count, want 60", n)
	}
	b.idle()
}
