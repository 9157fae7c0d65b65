package spec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What a tool may start stands in the schema and in the words that the model
// reads, unless the document has its own, and is what the tool needs to exist.
func TestStartRun_TheModelReadsWhatItMayStart(t *testing.T) {
	t.Parallel()
	parse := func(text string) *Tool {
		t.Helper()
		docs, err := Parse("t.yaml", []byte("apiVersion: holdfast/v1\nkind: Tool\nmetadata: {name: x}\nspec: {builtin: start_run, "+text+"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		again, err := Decode(docs[0].Body)
		if err != nil || again.Digest != docs[0].Digest {
			t.Fatalf("the stored body: %v", err)
		}
		return again.Tool
	}
	two := parse(`startRun: {agents: [shop-check, mail], flows: [night], maxChildren: 7}`)
	const said = "Starts a run of the agent shop-check, mail, or of the flow night. The result is how it ended: its output or its error. " +
		"At most 7 runs. An input that does not fit is answered with what is wrong, and nothing is started."
	if two.Description != said || two.Effect != EffectIdempotent || !two.StartRun.Waits() {
		t.Errorf("%q, %s, waits %v", two.Description, two.Effect, two.StartRun.Waits())
	}
	for args, want := range map[string]string{
		`{"agent":"mail","input":{"a":[1]}}`: "", `{"flow":"night"}`: "", `{"agent":"other"}`: "$.agent", `{"agents":"mail"}`: "$",
	} {
		if bad := two.Input.Validate([]byte(args)); (len(bad) == 0) != (want == "") || want != "" && bad[0].Path != want {
			t.Errorf("%s: %v", args, bad)
		}
	}
	var refs []string
	for _, r := range two.References() {
		refs = append(refs, r.Kind+" "+r.Name+" "+r.Field)
	}
	if diff := cmp.Diff([]string{"agent shop-check spec.startRun.agents[0]", "agent mail spec.startRun.agents[1]", "flow night spec.startRun.flows[0]"}, refs); diff != "" {
		t.Errorf("references (-want +got):\n%s", diff)
	}
	if bad := parse(`startRun: {agents: [a, b]}`).Input.Validate([]byte(`{}`)); len(bad) == 0 {
		t.Error("a choice of two may be left out")
	}
	one := parse(`startRun: {agents: [a], wait: false}, description: mine, approval: always`)
	if one.Description != "mine" || one.StartRun.Waits() || one.StartRun.MaxChildren != DefaultMaxChildren || len(one.Input.Validate([]byte(`{}`))) != 0 {
		t.Errorf("%+v", one.StartRun)
	}
	if !strings.Contains(parse(`startRun: {flows: [f], wait: false}`).Description, "The result is its id") {
		t.Error("a call that does not wait is said to wait")
	}
}
