package console

import (
	"strings"

	"github.com/holdfast-run/holdfast/internal/follow"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// Topics are what a page can follow. A page says which of them its parts show
// and reads itself again when one has changed.
const (
	TopicRuns      = "runs"
	TopicApprovals = "approvals"
	TopicEffects   = "effects"
	TopicTriggers  = "triggers"
	TopicSchedules = "schedules"
	TopicAgents    = "agents"
	TopicBudgets   = "budgets"
	TopicStops     = "stops"
	TopicSystem    = "system"
	// TopicEvents is any event at all.
	TopicEvents = "events"
	// topicRun, with an id behind it, is one run.
	topicRun = "run:"
)

// Topics lists those that are no run's.
func Topics() []string {
	return []string{TopicRuns, TopicApprovals, TopicEffects, TopicTriggers, TopicSchedules, TopicAgents, TopicBudgets, TopicStops, TopicSystem, TopicEvents}
}

// TopicOfRun is what a page about one run follows.
func TopicOfRun(id events.RunID) string { return topicRun + string(id) }

// IsTopic reports whether a page can follow t.
func IsTopic(t string) bool {
	if id, ok := strings.CutPrefix(t, topicRun); ok {
		return events.RunID(id).Valid()
	}
	for _, known := range Topics() {
		if t == known {
			return true
		}
	}
	return false
}

// topicsOfFact says what a row of a journal changes besides the runs.
var topicsOfFact = map[string][]string{
	events.FactStarted:          {TopicTriggers, TopicSchedules},
	events.FactModelAnswered:    {TopicBudgets},
	events.FactModelFailed:      {TopicBudgets},
	events.FactToolCompleted:    {TopicEffects, TopicBudgets},
	events.FactLateResult:       {TopicEffects},
	events.FactCallback:         {TopicEffects},
	events.FactApprovalDecided:  {TopicApprovals, TopicEffects},
	events.FactQuestionAsked:    {TopicApprovals},
	events.FactBudgetRaised:     {TopicBudgets},
	events.FactCancelRequested:  {TopicApprovals, TopicEffects},
	events.FactAttention:        {TopicSystem},
	events.FactPaused:           {TopicSystem, TopicBudgets},
	events.FactResumed:          {TopicSystem, TopicBudgets},
	events.FactMigrated:         {TopicAgents},
	events.FactSignalReceived:   {TopicTriggers},
	events.FactContextCompacted: {TopicBudgets},
	events.FactCompleted:        {TopicSchedules, TopicBudgets},
	events.FactFailed:           {TopicSchedules, TopicApprovals, TopicBudgets},
	events.FactCancelled:        {TopicSchedules, TopicApprovals, TopicBudgets},
	events.FactExpired:          {TopicSchedules, TopicApprovals, TopicBudgets},
}

// TopicsOf says what an event may have changed. What no event tells of, a
// stop or a new version, the board finds by looking.
func TopicsOf(e follow.Event) []string {
	if e.Run == nil {
		if e.Message.Type == events.TypeBudgetAlert {
			return []string{TopicEvents, TopicBudgets, TopicSystem}
		}
		return []string{TopicEvents}
	}
	return append([]string{TopicEvents, TopicRuns, TopicOfRun(e.Run.RunID)}, topicsOfFact[e.Run.Kind]...)
}
