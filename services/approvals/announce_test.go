package approvals_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/holdfast-run/holdfast/internal/bustest"
	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

func TestCaseE08_NATSDownDuringTheDecision(t *testing.T) {
	t.Parallel()
	nats := bustest.NewServer(t)
	db := pgtest.New(t)
	b := build(t, db.URL, nats.Connect(t))
	b.admin = db.Pool
	b.start()
	b.listen()
	a := b.ask()
	nats.Stop()
	got, err := b.as("ann").Decide(t.Context(), a.ApprovalID, yes)
	if err != nil || got.State != events.Approve {
		t.Fatalf("decide without NATS = %s, %v; want approved", got.State, err)
	}
	nats.Start()
	if d := b.decision(a.ApprovalID); d.By != "ann" {
		t.Errorf("the runner is told %+v", d)
	}
}

func TestCaseE08_PostgresDownClaimsNothing(t *testing.T) {
	t.Parallel()
	db := pgtest.NewServer(t)
	b := build(t, db.URL(), bustest.New(t))
	b.start()
	b.listen()
	a := b.ask()
	db.Stop()
	_, err := b.as("ann").Decide(t.Context(), a.ApprovalID, yes)
	e, ok := errors.AsType[*client.Error](err)
	if !ok || e.Status != http.StatusServiceUnavailable || e.RetryAfter == 0 {
		t.Fatalf("decide without Postgres = %v (%+v), want 503 with Retry-After", err, e)
	}
	db.Start()
	b.waitState(a.ApprovalID, approvals.StatePending)
	if got, err := b.as("ann").Decide(t.Context(), a.ApprovalID, yes); err != nil || got.Repeated {
		t.Fatalf("decide again = %+v, %v; want the first decision", got, err)
	}
	b.decision(a.ApprovalID)
}

// The process dies between commit and publish; another one finds the row.
func TestCaseE08_KilledBetweenCommitAndPublish(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	nats := bustest.New(t)
	dying := build(t, db.URL, nats)
	other := build(t, db.URL, nats)
	other.admin = db.Pool
	other.listen()
	a := question()
	dying.publish(a, "ask:"+string(a.ApprovalID))
	dying.start()
	dying.waitState(a.ApprovalID, approvals.StatePending)
	disarm, err := failpoint.Arm("approvals.committed["+string(a.ApprovalID)+"]=error", "")
	if err != nil {
		t.Fatal(err)
	}
	defer disarm()
	if _, err := dying.as("ann").Decide(t.Context(), a.ApprovalID, yes); client.StatusOf(err) != http.StatusInternalServerError {
		t.Fatalf("decide = %v, want no answer worth having", err)
	}
	other.start()
	got, err := other.as("ann").Decide(t.Context(), a.ApprovalID, yes)
	if err != nil || !got.Repeated {
		t.Errorf("the second click = %+v, %v; want the stored decision", got, err)
	}
	other.decision(a.ApprovalID)
	eventually(t, "it is marked", func() bool { return !other.show(a.ApprovalID).AnnouncedAt.IsZero() })
	for _, m := range other.told(a.ApprovalID) {
		if m.ID != "decision:"+string(a.ApprovalID) {
			t.Errorf("logical id = %s", m.ID)
		}
	}
	if n := len(other.told(a.ApprovalID)); n != 1 {
		t.Errorf("two relays told the runner %d times, want 1: they use one message id", n)
	}
}

func TestAskAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.ask()
	b.publish(a, "ask:"+string(a.ApprovalID)+":n1")
	b.idle()
	if n := len(b.told(a.ApprovalID)); n != 0 {
		t.Fatalf("an open request told the runner %d times", n)
	}
	if _, err := b.as("ann").Decide(t.Context(), a.ApprovalID, yes); err != nil {
		t.Fatal(err)
	}
	b.decision(a.ApprovalID)
	changed := a
	changed.Summary = "something else"
	b.publish(changed, "ask:"+string(a.ApprovalID)+":n2")
	eventually(t, "the decision is announced again", func() bool { return len(b.told(a.ApprovalID)) == 2 })
	told := b.told(a.ApprovalID)
	if told[0].MsgID == told[1].MsgID || string(told[0].Data) != string(told[1].Data) {
		t.Errorf("announcements %q and %q, want the same body under fresh message ids", told[0].MsgID, told[1].MsgID)
	}
	if s := b.show(a.ApprovalID).Summary; s != a.Summary {
		t.Errorf("a second ask changed the request to %q", s)
	}
}

func TestAnnouncedUntilItLands(t *testing.T) {
	t.Parallel()
	b := setup(t)
	// The runner's promise, without the runner.
	b.exec(`CREATE TABLE public.landed (run_id text, cause text)`)
	b.exec(`CREATE SCHEMA IF NOT EXISTS runner`)
	b.exec(`DROP VIEW IF EXISTS runner.v_landed`)
	b.exec(`CREATE VIEW runner.v_landed AS SELECT run_id, cause FROM public.landed`)
	b.exec(`GRANT USAGE ON SCHEMA runner TO holdfast_approvals`)
	b.exec(`GRANT SELECT ON runner.v_landed TO holdfast_approvals`)

	a := b.ask()
	if _, err := b.as("ann").Decide(t.Context(), a.ApprovalID, yes); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is marked", func() bool { return !b.show(a.ApprovalID).AnnouncedAt.IsZero() })
	wait := b.count(`SELECT round(extract(epoch FROM next_announce_at - announced_at)) FROM approvals.requests WHERE approval_id = $1`, a.ApprovalID)
	if wait != 10 {
		t.Errorf("the next announcement is due after %d s, want 10", wait)
	}
	b.exec(`UPDATE approvals.requests SET next_announce_at = clock_timestamp() WHERE approval_id = $1`, a.ApprovalID)
	eventually(t, "it is announced again", func() bool { return len(b.told(a.ApprovalID)) == 2 })
	if got, want := b.told(a.ApprovalID)[1].MsgID, "decision:"+string(a.ApprovalID)+":n1"; got != want {
		t.Errorf("message id = %s, want %s", got, want)
	}
	b.exec(`INSERT INTO public.landed VALUES ($1, $2)`, a.RunID, "decision:"+string(a.ApprovalID))
	eventually(t, "it has landed", func() bool { return !b.show(a.ApprovalID).LandedAt.IsZero() })
	if n := b.count(`SELECT count(*) FROM approvals.requests WHERE next_announce_at IS NOT NULL`); n != 0 {
		t.Errorf("%d requests are still owed, want 0", n)
	}
}
