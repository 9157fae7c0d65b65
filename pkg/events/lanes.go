package events

import (
	"fmt"
	"strings"
)

// Priorities of a run. The owed model calls of interactive runs come before those
// of batch runs, which still get a share.
const (
	PriorityInteractive = "interactive"
	PriorityBatch       = "batch"
)

// Priorities lists them, the first one first.
var Priorities = []string{PriorityInteractive, PriorityBatch}

// StepLanes is how many lanes the steps of one priority have: so many agents are
// served in turn, whatever one of them owes.
const StepLanes = 8

// RunStepLane is the <what> of a step that waits in a lane; 0 <= lane < StepLanes.
// RunStep is one more lane, for steps of releases that knew no other.
func RunStepLane(priority string, lane int) string {
	class := "i"
	if priority == PriorityBatch {
		class = "b"
	}
	return fmt.Sprintf("%s-%s%d", RunStep, class, lane%StepLanes)
}

// StepKinds lists every <what> of a step: RunStep, then the lanes of each priority.
func StepKinds() []string {
	kinds := []string{RunStep}
	for _, p := range Priorities {
		for lane := range StepLanes {
			kinds = append(kinds, RunStepLane(p, lane))
		}
	}
	return kinds
}

// IsStep reports whether a <what> asks for an owed model call.
func IsStep(what string) bool { return what == RunStep || strings.HasPrefix(what, RunStep+"-") }

// StepConsumer is the durable consumer of one kind of step.
func StepConsumer(what string) string { return ConsumerRunnerStep + strings.TrimPrefix(what, RunStep) }
