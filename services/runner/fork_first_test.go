package runner

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// The new run pins what the old one pinned, and owes nobody what that one owed: a
// deadline that has passed would end a retry before it began, and a place that was
// taken for a parent is not its own.
func TestFork_TheFirstRowOwesNobodyWhatTheOldRunOwed(t *testing.T) {
	t.Parallel()
	old := events.RunStarted{
		Ref: events.Ref{Kind: events.KindAgent, Name: "seller", Digest: "sha256:1"}, Wording: 1,
		Parent: &events.Parent{RunID: "p"}, Callback: &events.Callback{URL: "http://x"}, Deadline: &events.Deadline{From: events.DeadlineOfDefinition},
		Concurrency: []events.ConcurrencyKey{{Key: "sha256:2", Of: "above", Max: 1}},
	}
	for trigger, o := range map[string]events.ForkRun{"fork": {From: "r"}, "retry": {From: "r", Retry: true}} {
		want := events.RunStarted{
			Ref: old.Ref, Wording: 1, Origin: &events.Origin{RunID: "r", Row: 7}, Trigger: events.Trigger{Kind: trigger, ID: "r"},
			Concurrency: []events.ConcurrencyKey{{Key: "sha256:2", Max: 1}},
		}
		if diff := cmp.Diff(want, startedFrom(old, o, 7)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", trigger, diff)
		}
	}
	if old.Concurrency[0].Of != "above" {
		t.Error("the old run's row was changed")
	}
}
