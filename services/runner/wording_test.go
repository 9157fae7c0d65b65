package runner

import (
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// A run's system prompt has the wording of the rule that its first row names. One that
// this release does not have stops the run instead of telling its model something else.
func TestOutput_TheRuleIsWordedAsTheRunBegan(t *testing.T) {
	t.Parallel()
	schema, err := spec.NewSchema([]byte(`{"type":"object"}`))
	if err != nil {
		t.Fatal(err)
	}
	plan := &Plan{Agent: &spec.Agent{Instructions: "be exact", Output: &spec.AgentOutput{Schema: schema}}}
	for wording, ok := range map[int]bool{0: true, 1: true, spec.OutputWording() + 1: false} {
		st := &State{Started: events.RunStarted{Wording: wording}}
		text, err := st.system(plan)
		if (err == nil) != ok || ok && !strings.HasPrefix(text, "be exact\n\nYour final answer must be one JSON value") {
			t.Errorf("wording %d: %.60q, %v", wording, text, err)
		}
	}
}
