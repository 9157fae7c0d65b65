package tools_test

import (
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// strict is what an agent says whose calls wait for finance, whatever their tools
// say.
var strict = spec.Asking{Approvals: &spec.Approvals{Policy: &spec.Approval{
	Mode: spec.ApprovalAlways, Rule: &spec.Rule{Deciders: &spec.Deciders{Groups: []string{"finance"}}, Requester: spec.RequesterDenied}}}}

// The policy of the definition that the run executes is judged by the ledger too:
// a message that says nothing of it, or brings a yes under the tool's own policy,
// begins nothing.
func TestApproval_TheRunsPolicyHolds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	call := func(digest string) events.CallTool {
		run := w.run("a", "")
		if _, err := w.db.Pool.Exec(t.Context(), `UPDATE runner.runs SET digest = $2 WHERE run_id = $1`, string(run), digest); err != nil {
			t.Fatal(err)
		}
		return callOf(t, run, 3, "pay", `{"n":1}`)
	}
	bind := func(c events.CallTool, of spec.Asking) func(*events.Digest) {
		g := defs().byDigest[c.ToolDigest].Gate(of, spec.GateCase{Args: c.Args})
		return func(d *events.Digest) {
			*d = events.BindDigest(c.Tool, c.ToolDigest, c.ArgsDigest, g.Policy)
		}
	}
	for name, tc := range map[string]struct {
		prepare func(*events.CallTool)
		digest  string
		code    string
	}{
		"no yes":                          {func(*events.CallTool) {}, "sha256:strict", "approval_missing"},
		"a yes under the tool's policy":   {func(c *events.CallTool) { w.approve(c, "approved", time.Hour, nil) }, "sha256:strict", "approval_mismatch"},
		"a yes under both":                {func(c *events.CallTool) { w.approve(c, "approved", time.Hour, bind(*c, strict)) }, "sha256:strict", ""},
		"an agent without a policy":       {func(*events.CallTool) {}, "sha256:x", ""},
		"a yes that nobody needs but who": {func(c *events.CallTool) { w.approve(c, "rejected", time.Hour, nil) }, "sha256:x", "approval_missing"},
	} {
		c := call(tc.digest)
		tc.prepare(&c)
		w.send(c, "")
		status := events.CallFailed
		if tc.code == "" {
			status = events.CallSucceeded
		}
		if a := w.answer(c.CallID, status); tc.code != "" && (a.Error == nil || a.Error.Code != tc.code) {
			t.Errorf("%s: %+v", name, a)
		}
	}
}
