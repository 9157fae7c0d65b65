package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// mostArtifacts is how many artifacts are named beside a run.
const mostArtifacts = 20

// planLines shows a plan, one item on a line.
func planLines(items []events.PlanItem) string {
	var b strings.Builder
	for _, item := range items {
		fmt.Fprintf(&b, "%-11s  %s\n", item.State, joinWords(cut(oneLine(item.Title), 120), parenthesis(cut(oneLine(item.Note), 120))))
	}
	return b.String()
}

// factLines shows facts, one on a line.
func factLines(facts map[string]json.RawMessage) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(facts)) {
		fmt.Fprintf(&b, "%s = %s\n", name, short(facts[name], 160))
	}
	return b.String()
}

// artifactLines names a run's newest artifacts.
func artifactLines(r client.Run) string {
	var b strings.Builder
	for _, a := range r.Artifacts[:min(len(r.Artifacts), mostArtifacts)] {
		what := joinWords(cut(a.Name, 60), cut(a.ContentType, 40), runArtifactSize(a))
		if a.URI != "" {
			what = cut(joinWords(a.Kind, a.Title, a.URI), 120)
		}
		fmt.Fprintf(&b, "%s %s\n", a.ArtifactID, parenthesis(what))
	}
	if r.MoreArtifacts || len(r.Artifacts) > mostArtifacts {
		fmt.Fprintf(&b, "more: holdfast artifacts list --run %s\n", r.RunID)
	}
	return b.String()
}

func runArtifactSize(a client.RunArtifact) string {
	if a.Truncated {
		return fmt.Sprintf("%d bytes, cut off", a.Bytes)
	}
	return fmt.Sprintf("%d bytes", a.Bytes)
}

// oneLine is text without its line breaks.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
