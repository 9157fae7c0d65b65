package spec_test

import (
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/spec"
)

func TestPriority(t *testing.T) {
	t.Parallel()
	agent := "apiVersion: holdfast/v1\nkind: Agent\nmetadata: {name: a}\nspec: {model: m, instructions: i, priority: %}\n"
	hook := "apiVersion: holdfast/v1\nkind: Webhook\nmetadata: {name: w}\nspec: {provider: standard, secrets: [{env: S}], agent: a, priority: %}\n"
	schedule := "apiVersion: holdfast/v1\nkind: Schedule\nmetadata: {name: s}\nspec: {cron: 0 2 * * *, agent: a, priority: %}\n"
	flow := "apiVersion: holdfast/v1\nkind: Flow\nmetadata: {name: f}\nspec: {steps: [{name: s, agent: a}], priority: %}\n"
	for _, text := range []string{agent, flow, hook, schedule} {
		docs, err := spec.Parse("a.yaml", []byte(strings.ReplaceAll(text, "%", "batch")))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		switch d := docs[0]; {
		case d.Agent != nil:
			got = d.Agent.Priority
		case d.Flow != nil:
			got = d.Flow.Priority
		case d.Webhook != nil:
			got = d.Webhook.Priority
		case d.Schedule != nil:
			got = d.Schedule.Priority
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
	signals := strings.Replace(hook, "agent: a", "signal: {name: paid, key: \"${body.id}\"}", 1)
	if _, err := spec.Parse("a.yaml", []byte(strings.ReplaceAll(signals, "%", "batch"))); err == nil || !strings.Contains(err.Error(), "spec.priority") {
		t.Errorf("a webhook that signals takes a priority: %v", err)
	}
}
