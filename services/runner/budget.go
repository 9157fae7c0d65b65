package runner

import (
	"context"

	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

func (s *Service) reservation(st *State, plan *Plan, seq, epoch, amount int64) Reservation {
	return Reservation{RunID: st.RunID, Namespace: st.Namespace, Seq: seq, Epoch: epoch, Pools: plan.Pools, Amount: amount}
}

// reserve books the next model call of st with its shared pools. A run without
// pools skips it.
func (s *Service) reserve(ctx context.Context, st *State, plan *Plan, epoch int64) (Reserved, error) {
	if len(plan.Pools) == 0 {
		return Reserved{OK: true}, nil
	}
	first, err := spec.FirstMessage(plan.Agent, st.Started.Input)
	if err != nil {
		return Reserved{}, fault.Terminal("prompt", err)
	}
	entries, err := st.Transcript(first)
	if err != nil {
		return Reserved{}, fault.Terminal("transcript", err)
	}
	amount := reserveTokens(first, plan.Agent.Instructions, entries, maxTokens(plan, plan.answering(st).Model))
	return s.store.Reserve(ctx, s.reservation(st, plan, st.Seq, epoch, amount))
}

// unreserve gives back the booking of a call that was never made. A failure
// only leaves it counted as spent when the claim is taken over.
func (s *Service) unreserve(ctx context.Context, st *State, plan *Plan, epoch int64) {
	if len(plan.Pools) == 0 {
		return
	}
	if err := s.store.Unreserve(ctx, s.reservation(st, plan, st.Seq, epoch, 0)); err != nil {
		s.logFor(st.RunID).Warn("reservation not given back", "err", err)
	}
	s.moved()
}

// noRoom handles a refused reservation: a pool that is used up pauses the run
// until it is raised; for one that is only booked by others it stands in a
// queue, without a message and without a slot.
func (s *Service) noRoom(ctx context.Context, l Loaded, plan *Plan, m events.Received, r Reserved) error {
	if !r.Full {
		if err := s.store.Await(ctx, l.State.RunID, l.State.Seq, r); err != nil {
			return err
		}
		s.moved() // room that came before the wait was there
		s.logFor(l.State.RunID).Debug("waits for a budget", "reason", r.Reason)
		return nil
	}
	d, err := PauseForPool(l.State, r.Refused, r.Reason, Claimed{Cause: m.ID, Worker: s.worker}, l.Now)
	if err != nil {
		return err
	}
	c := Commit{Before: l.State, After: d.State, Facts: d.Facts, Worker: s.worker, Cause: m.ID, CancelledAt: cancelMoment(l)}
	_, at, err := s.store.Commit(ctx, c)
	if err != nil {
		return err
	}
	s.cache.put(d.State)
	return s.send(ctx, d.State, plan, d.Facts, at)
}

// raisePool lifts a shared pool before the command is recorded; doing it again
// changes nothing.
func (s *Service) raisePool(ctx context.Context, st *State, plan *Plan, in Input) error {
	if in.Command == nil || in.What != events.RunRaiseBudget {
		return nil
	}
	name, shared := sharedPool(in.Command.Budget)
	if !shared {
		return nil
	}
	for _, p := range plan.Pools {
		if p.Name == name {
			defer s.moved()
			return s.store.RaisePool(ctx, st.Namespace, p, in.Command.To)
		}
	}
	return nil
}

// wakeLimit bounds how many paused runs one raise wakes; each that finds no
// room pauses again and the doctor's next look wakes the rest.
const wakeLimit = 10_000

// wake resumes the other runs that a raised pool had paused. The ids follow
// from the command, so a repeat is recorded once.
func (s *Service) wake(ctx context.Context, st *State, facts []Fact) error {
	for _, f := range facts {
		if f.Kind != events.FactBudgetRaised {
			continue
		}
		err := decodeInto(f, func(r events.Raised) error {
			name, shared := sharedPool(r.Budget)
			if !shared {
				return nil
			}
			ids, err := s.store.PausedFor(ctx, st.Namespace, name, wakeLimit)
			if err != nil {
				return err
			}
			for _, id := range ids {
				if id == st.RunID {
					continue
				}
				if err := s.bus.Publish(ctx, wakeMessage(st.Namespace, id, r.Command)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func wakeMessage(namespace string, id events.RunID, raise events.Command) events.Message {
	cmd := events.Command{ID: raise.ID + "-" + string(id), RunID: id, Principal: raise.Principal, Reason: "the ceiling of " + raise.Budget + " was raised"}
	return events.Message{
		Subject: events.RunSubject(id, events.RunResume), MsgID: "command:" + cmd.ID, ID: "command:" + cmd.ID, Source: source,
		Type: events.TypeCommandRun, About: string(id), Namespace: namespace, Data: mustJSON(cmd),
	}
}
