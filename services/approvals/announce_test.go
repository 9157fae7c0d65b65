package approvals_test

import (
	"testing"
)

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
