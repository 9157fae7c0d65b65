package main

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/spec"
)

// What the files of init have commented out is valid when its # is taken away.
func TestInit_HintsAreValid(t *testing.T) {
	t.Parallel()
	hint := regexp.MustCompile(`(?m)^( *)# ?((?:priority|notify|approvals|apiVersion|kind|metadata|spec):.*|  +\w+:.*)$`)
	found := map[string]bool{}
	var agent *spec.Agent
	for _, name := range []string{"agent.yaml", "channel.yaml"} {
		text, err := fs.ReadFile(project, "project/"+name)
		if err != nil {
			t.Fatal(err)
		}
		docs, err := spec.Parse(name, hint.ReplaceAll(text, []byte("$1$2")))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, d := range docs {
			found[strings.ToLower(d.Kind)+"/"+d.Name] = true
			if d.Agent != nil {
				agent = d.Agent
			}
		}
	}
	if agent == nil || agent.Priority != "batch" || agent.Notify == nil || agent.Approvals == nil || len(agent.Concurrency) != 1 {
		t.Fatalf("the agent with its hints: %+v", agent)
	}
	for _, channel := range []string{agent.Notify.Channel, agent.Approvals.Channel} {
		if !found["channel/"+channel] {
			t.Errorf("channel %s is named and not among %v", channel, found)
		}
	}
}
