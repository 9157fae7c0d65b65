package spec_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/spec"
)

func TestDeadline(t *testing.T) {
	t.Parallel()
	head := "apiVersion: holdfast/v1\nkind: "
	for kind, text := range map[string]string{
		"Agent":    "Agent\nmetadata: {name: a}\nspec: {model: m, instructions: i, deadline: %}\n",
		"Flow":     "Flow\nmetadata: {name: f}\nspec: {steps: [{name: s, agent: a}], deadline: %}\n",
		"Schedule": "Schedule\nmetadata: {name: s}\nspec: {cron: 0 2 * * *, agent: a, deadline: %}\n",
		"Webhook":  "Webhook\nmetadata: {name: w}\nspec: {provider: standard, secrets: [{env: S}], agent: a, deadline: %}\n",
	} {
		docs, err := spec.Parse("a.yaml", []byte(head+strings.ReplaceAll(text, "%", "2d")))
		if err != nil {
			t.Fatal(err)
		}
		var got spec.Duration
		switch d := docs[0]; {
		case d.Agent != nil:
			got = d.Agent.Deadline
		case d.Flow != nil:
			got = d.Flow.Deadline
		case d.Schedule != nil:
			got = d.Schedule.Deadline
		case d.Webhook != nil:
			got = d.Webhook.Deadline
		}
		if got.Std() != 48*time.Hour {
			t.Errorf("%s: deadline %s", kind, got)
		}
		for _, bad := range []string{"7", "soon", "-1h", "10ms", "400d", "[1h]", "2026-12-01T08:00:00Z"} {
			if _, err := spec.Parse("a.yaml", []byte(head+strings.ReplaceAll(text, "%", bad))); err == nil || !strings.Contains(err.Error(), "spec.deadline") {
				t.Errorf("%s: deadline %s gave %v, want a problem at spec.deadline", kind, bad, err)
			}
		}
	}
	hook := head + "Webhook\nmetadata: {name: w}\nspec: {provider: standard, secrets: [{env: S}], signal: {name: paid, key: \"${body.id}\"}, deadline: 1h}\n"
	if _, err := spec.Parse("a.yaml", []byte(hook)); err == nil || !strings.Contains(err.Error(), "spec.deadline") {
		t.Errorf("a webhook that signals takes a deadline: %v", err)
	}
}
