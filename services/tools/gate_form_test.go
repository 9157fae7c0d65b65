package tools

import (
	"encoding/json"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Without what a person had to fill in no call is made, whoever agreed to it; with it,
// only by a yes to exactly that.
func TestGate_AFormIsFilledInByAYes(t *testing.T) {
	t.Parallel()
	docs, err := spec.Parse("t.yaml", []byte(`
apiVersion: holdfast/v1
kind: Tool
metadata: {name: refund}
spec:
  description: x
  effect: write
  input: {type: object, properties: {order: {type: integer}, reason: {type: string}, note: {type: string}}}
  approval: {form: [{name: reason, required: true}]}
  http: {method: POST, url: "https://x.example/", body: "${args}"}
`))
	if err != nil {
		t.Fatal(err)
	}
	tool := docs[0].Tool
	for name, tc := range map[string]struct {
		args, rule string
		yes, ends  bool
	}{
		"not filled in, with a yes":  {`{"order":1}`, "", true, true},
		"not filled in, without one": {`{"order":1}`, "", false, true},
		"filled in":                  {`{"order":1,"reason":"late"}`, "", true, false},
		"filled in by nobody":        {`{"order":1,"reason":"late"}`, "", false, false}, // and asked for its yes
		"an effect that is recalled": {`{"order":1}`, events.RuleRecall, false, false},
	} {
		c := events.CallTool{Tool: "refund", ToolDigest: docs[0].Digest, Args: json.RawMessage(tc.args), ArgsDigest: events.DigestOf([]byte(tc.args)), Rule: tc.rule}
		if tc.yes {
			c.Approval = &events.Approved{}
		}
		var p Plan
		p.gate(tool, c, spec.Asking{}, spec.GateCase{})
		if (p.Problem != nil) != tc.ends || p.Problem != nil && p.Problem.Code != CodeApprovalMissing || !p.Gated {
			t.Errorf("%s: %+v, gated %t", name, p.Problem, p.Gated)
		}
	}
}
