package runner

import (
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

func TestPriorityOf(t *testing.T) {
	t.Parallel()
	batch, own := &events.Parent{Priority: events.PriorityBatch}, &events.Parent{}
	for name, tc := range map[string]struct {
		kind, said, trigger string
		parent              *events.Parent
		want, start         string
	}{
		"a start by a person":                                     {events.KindAgent, "", "api", nil, "", ""},
		"a schedule":                                              {events.KindAgent, "", "schedule", nil, events.PriorityBatch, ""},
		"a schedule of an interactive agent":                      {events.KindAgent, events.PriorityInteractive, "schedule", nil, "", ""},
		"a batch agent":                                           {events.KindAgent, events.PriorityBatch, "webhook", nil, events.PriorityBatch, ""},
		"a batch flow":                                            {events.KindFlow, events.PriorityBatch, "api", nil, events.PriorityBatch, ""},
		"an interactive agent below a batch run":                  {events.KindAgent, events.PriorityInteractive, "child", batch, events.PriorityBatch, ""},
		"a batch agent below an interactive run":                  {events.KindAgent, events.PriorityBatch, "child", own, events.PriorityBatch, ""},
		"a child that says nothing":                               {events.KindFlow, "", "child", own, "", ""},
		"a start that asks for batch":                             {events.KindAgent, events.PriorityInteractive, "api", nil, events.PriorityBatch, events.PriorityBatch},
		"a start that asks for interactive of a batch agent":      {events.KindAgent, events.PriorityBatch, "api", nil, events.PriorityBatch, events.PriorityInteractive},
		"a schedule that asks for interactive":                    {events.KindFlow, "", "schedule", nil, "", events.PriorityInteractive},
		"a schedule that asks for interactive of a batch flow":    {events.KindFlow, events.PriorityBatch, "schedule", nil, events.PriorityBatch, events.PriorityInteractive},
		"a start that asks for what no release of this one knows": {events.KindAgent, "", "api", nil, "", "urgent"},
	} {
		plan := &Plan{Agent: &spec.Agent{Priority: tc.said}}
		if tc.kind == events.KindFlow {
			plan = &Plan{Flow: &spec.Flow{Priority: tc.said}}
		}
		if got := priorityOf(plan, events.RunStarted{Ref: events.Ref{Kind: tc.kind}, Parent: tc.parent, Priority: tc.start, Trigger: events.Trigger{Kind: tc.trigger}}); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
