package tools_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// approve writes the yes that the approvals service would hold, valid for the
// given time, and puts it on the call.
func (w *world) approve(c *events.CallTool, state string, valid time.Duration, change func(*events.Digest)) {
	w.t.Helper()
	g := defs().byDigest[c.ToolDigest].Gate(spec.Asking{}, spec.GateCase{Args: c.Args})
	bind := events.BindDigest(c.Tool, c.ToolDigest, c.ArgsDigest, g.Policy)
	if change != nil {
		change(&bind)
	}
	id := events.NewApprovalID(c.CallID, "a", 2)
	by, decided := "ines", "clock_timestamp()"
	if state == "pending" {
		by, decided = "", "NULL"
	}
	_, err := w.db.Pool.Exec(w.t.Context(), fmt.Sprintf(`
INSERT INTO approvals.requests (approval_id, namespace, run_id, kind, call_id, agent, tool, tool_digest, args, digest, ask_cause,
	asked_at, created_at, expires_at, valid_for, state, decided_by, decided_at, valid_until)
VALUES ($1, $2, $3, 'action', $4, 'a', $5, $6, $7::text::json, $8, 'ask:' || $1, clock_timestamp(), clock_timestamp(),
	clock_timestamp() + interval '1 day', interval '1 day', $9, $10, %s, clock_timestamp() + $11::bigint * interval '1 millisecond')`, decided),
		string(id), c.Namespace, string(c.RunID), string(c.CallID), c.Tool, string(c.ToolDigest), string(c.Args), string(bind), state, by, valid.Milliseconds())
	if err != nil {
		w.t.Fatal(err)
	}
	c.Approval = &events.Approved{ID: id, Digest: bind, By: "ines", At: time.Now(), ValidUntil: time.Now().Add(time.Hour)}
}

func TestApproval_OnlyAValidYesActs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	cases := map[string]struct {
		prepare func(c *events.CallTool)
		status  string
		code    string
	}{
		"a valid yes": {func(c *events.CallTool) { w.approve(c, "approved", time.Hour, nil) }, events.CallSucceeded, ""},
		"none at all": {func(*events.CallTool) {}, events.CallFailed, "approval_missing"},
		"one that the call only claims": {func(c *events.CallTool) {
			c.Approval = &events.Approved{ID: events.NewApprovalID(c.CallID, "a", 2), By: "mallory", ValidUntil: time.Now().Add(time.Hour)}
		}, events.CallFailed, "approval_missing"},
		"one that is not decided": {func(c *events.CallTool) { w.approve(c, "pending", time.Hour, nil) }, events.CallFailed, "approval_missing"},
		"a no":                    {func(c *events.CallTool) { w.approve(c, "rejected", time.Hour, nil) }, events.CallFailed, "approval_missing"},
		"one for other arguments": {func(c *events.CallTool) {
			w.approve(c, "approved", time.Hour, func(d *events.Digest) { *d = events.DigestOf([]byte("others")) })
		}, events.CallFailed, "approval_mismatch"},
		"one of another call": {func(c *events.CallTool) {
			o := w.call("gated", string(c.Args))
			w.approve(&o, "approved", time.Hour, nil)
			c.Approval = o.Approval
		}, events.CallFailed, "approval_missing"},
		"one that is over, whatever the call says": {func(c *events.CallTool) { w.approve(c, "approved", -time.Millisecond, nil) }, events.CallExpired, "approval_expired"},
	}
	n := 0
	for name, tc := range cases {
		n++
		c := w.call("gated", fmt.Sprintf(`{"n":%d}`, n))
		tc.prepare(&c)
		w.send(c, "")
		a := w.answer(c.CallID, tc.status)
		if tc.code != "" && (a.Error == nil || a.Error.Code != tc.code) {
			t.Errorf("%s: answer %+v", name, a)
		}
		want := 0
		if tc.status == events.CallSucceeded {
			want = 1
		}
		w.wantEffects(c, want)
	}
	w.idle()
}

// A person may make of a call one that no rule would ask about: it is still held to
// the yes, and to the arguments that were confirmed.
func TestCaseE05_AnEditedCallIsHeldToItsYes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	c := w.call("pay", `{"amount":500}`)
	w.approve(&c, "approved", time.Hour, nil) // to 500, which now is 50
	edited := c
	edited.Args, edited.ArgsDigest = json.RawMessage(`{"amount":50}`), events.DigestOf([]byte(`{"amount":50}`))
	w.send(edited, "")
	if a := w.answer(c.CallID, events.CallFailed); a.Error == nil || a.Error.Code != "approval_mismatch" {
		t.Errorf("a call that is not what was confirmed: %+v", a)
	}
	w.wantEffects(edited, 0)

	c = w.call("pay", `{"amount":50}`)
	c.Approval = &events.Approved{ID: events.NewApprovalID(c.CallID, "a", 2), By: "mallory", ValidUntil: time.Now().Add(time.Hour)}
	w.send(c, "")
	if a := w.answer(c.CallID, events.CallFailed); a.Error == nil || a.Error.Code != "approval_missing" {
		t.Errorf("a call with a yes that nobody gave: %+v", a)
	}
	w.wantEffects(c, 0)

	c = w.call("pay", `{"amount":50,"order":1234567890123456789}`)
	w.approve(&c, "approved", time.Hour, nil)
	w.send(c, "")
	w.answer(c.CallID, events.CallSucceeded)
	w.wantEffects(c, 1)
}

// A yes that runs out between two attempts ends the waiting: nothing was done.
func TestApproval_RunsOutWhileWaiting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	c := w.call("gated", `{"mode":"429"}`)
	w.approve(&c, "approved", 700*time.Millisecond, nil)
	w.send(c, "")
	w.answer(c.CallID, events.CallExpired)
	w.idle()
	if n := w.outside.requests(c); n != 1 {
		t.Errorf("%d requests, want the first alone", n)
	}
	if state, _ := w.effect(c); state != "failed" {
		t.Errorf("the effect is %s, want failed: it surely did not happen", state)
	}
	w.wantEffects(c, 0)
}

// A yes that runs out while the process that holds the intent is late.
func TestApproval_RunsOutBeforeTheRenewal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	c := w.call("gated", `{"n":99}`)
	w.approve(&c, "approved", 900*time.Millisecond, nil)
	disarm, err := failpoint.Arm(fmt.Sprintf("tools.intent[%s]=sleep:1300ms", c.CallID), "")
	if err != nil {
		t.Fatal(err)
	}
	defer disarm()
	w.send(c, "")
	w.answer(c.CallID, events.CallExpired)
	w.idle()
	w.wantEffects(c, 0)
}
