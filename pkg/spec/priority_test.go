package spec_test

import (
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/spec"
)

func TestPriority(t *testing.T) {
	t.Parallel()
	agent := "apiVersion: holdfast/v1\nkind: Agent\nmetadata: {name: a}\nspec: {model: m, instructions: i, priority: %}\n"
	flow := "apiVersion: holdfast/v1\nkind: Flow\nmetadata: {name: f}\nspec: {steps: [{name: s, agent: a}], priority: %}\n"
	for _, text := range []string{agent, flow} {
		docs, err := spec.Parse("a.yaml", []byte(strings.ReplaceAll(text, "%", "batch")))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if a := docs[0].Agent; a != nil {
			got = a.Priority
		} else {
			got = docs[0].Flow.Priority
		}
		if got != "batch" {
			t.Errorf("priority %q", got)
		}
		for _, bad := range []string{"urgent", "Batch", "1", "[batch]"} {
			if _, err := spec.Parse("a.yaml", []byte(strings.ReplaceAll(text, "%", bad))); err == nil || !strings.Contains(err.Error(), "spec.priority") {
				t.Errorf("priority %s gave %v, want a problem at spec.priority", bad, err)
			}
		}
	}
}
