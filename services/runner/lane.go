package runner

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Laner gives agents their lanes.
type Laner interface {
	// Lane is the lane of an agent's owed model calls; all processes say the same.
	Lane(ctx context.Context, namespace, name string) (int, error)
}

// laneFor is how long a process remembers a lane; shorter than it is kept.
const laneFor = 10 * time.Minute

// laneCache remembers the lanes of agents, of which there are as many as are
// defined.
type laneCache struct {
	mu    sync.Mutex
	known map[[2]string]knownLane
}

type knownLane struct {
	lane  int
	until time.Time
}

// stepKind is the <what> of a run's step. Without an answer from the database it is
// the lane of all.
func (s *Service) stepKind(ctx context.Context, namespace, agent, priority string) string {
	key := [2]string{namespace, agent}
	s.lanes.mu.Lock()
	k, ok := s.lanes.known[key]
	s.lanes.mu.Unlock()
	if !ok || time.Now().After(k.until) {
		lane, err := s.store.Lane(ctx, namespace, agent)
		if err != nil {
			s.log.Warn("the step waits in the lane of all", "agent", agent, "err", err)
			return events.RunStep
		}
		k = knownLane{lane: lane, until: time.Now().Add(laneFor)}
		s.lanes.mu.Lock()
		if s.lanes.known == nil {
			s.lanes.known = map[[2]string]knownLane{}
		}
		s.lanes.known[key] = k
		s.lanes.mu.Unlock()
	}
	return events.RunStepLane(priority, k.lane)
}

// askStep asks for the owed model call of a run, in its lane.
func (s *Service) askStep(ctx context.Context, st *State, epoch int64) error {
	return s.bus.Publish(ctx, s.inLane(ctx, StepMessage(st.RunID, st.Namespace, st.Seq, epoch), st.Started.Ref.Name, st.Started.Priority))
}

// inLane puts a step where those of its agent wait.
func (s *Service) inLane(ctx context.Context, m events.Message, agent, priority string) events.Message {
	m.Subject = events.RunSubject(events.RunID(m.About), s.stepKind(ctx, m.Namespace, agent, priority))
	return m
}

// keeps reports whether a run that owes another call goes on with its slot while
// others wait for one.
func (s *Service) keeps(ctx context.Context, st *State) bool {
	return !s.slots.Waited() || s.slots.Keep(s.stepKind(ctx, st.Namespace, st.Started.Ref.Name, st.Started.Priority))
}

// priorityOf is what a run is worth: batch below a batch run and where its
// definition or its start says so; nobody waits for what a schedule started, unless
// one of them says interactive. started has what its start asks for.
func priorityOf(plan *Plan, started events.RunStarted) string {
	said := ""
	switch {
	case started.Ref.Kind == events.KindFlow && plan.Flow != nil:
		said = plan.Flow.Priority
	case plan.Agent != nil:
		said = plan.Agent.Priority
	}
	p := started.Parent
	if p != nil && p.Priority == events.PriorityBatch || said == events.PriorityBatch || started.Priority == events.PriorityBatch ||
		said == "" && started.Priority != events.PriorityInteractive && p == nil && started.Trigger.Kind == "schedule" {
		return events.PriorityBatch
	}
	return ""
}
