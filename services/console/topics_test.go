package console

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/follow"
	"github.com/holdfast-run/holdfast/pkg/events"
)

func TestTopicsOf(t *testing.T) {
	t.Parallel()
	id := events.NewRunID()
	run := func(kind string) follow.Event { return follow.Event{Run: &events.RunEvent{RunID: id, Kind: kind}} }
	always := []string{TopicEvents, TopicRuns, TopicOfRun(id)}
	for name, tc := range map[string]struct {
		event follow.Event
		want  []string
	}{
		"a call's outcome may be an effect":   {run(events.FactToolCompleted), append(slices.Clone(always), TopicEffects, TopicBudgets)},
		"an answer costs":                     {run(events.FactModelAnswered), append(slices.Clone(always), TopicBudgets)},
		"an end may be a schedule's":          {run(events.FactCompleted), append(slices.Clone(always), TopicSchedules, TopicBudgets)},
		"a kind of a newer release":           {run("juggled"), always},
		"an alert":                            {follow.Event{Message: events.Message{Type: events.TypeBudgetAlert}}, []string{TopicEvents, TopicBudgets, TopicSystem}},
		"a message that is nobody's":          {follow.Event{Message: events.Message{Type: "x"}}, []string{TopicEvents}},
		"a run's event that cannot be read":   {follow.Event{Message: events.Message{Type: events.TypeRunEvent}}, []string{TopicEvents}},
		"a plan shows on the run's page only": {run(events.FactPlanChanged), always},
	} {
		got := TopicsOf(tc.event)
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		for _, topic := range got {
			if !IsTopic(topic) {
				t.Errorf("%s: nobody can follow %q", name, topic)
			}
		}
	}
	for kind, topics := range topicsOfFact {
		for _, topic := range topics {
			if !slices.Contains(Topics(), topic) {
				t.Errorf("%s changes %q, which is no topic", kind, topic)
			}
		}
	}
	for _, bad := range []string{"", "run:", "run:x", "run", "Runs", "run:" + string(id) + " "} {
		if IsTopic(bad) {
			t.Errorf("%q is a topic", bad)
		}
	}
}
