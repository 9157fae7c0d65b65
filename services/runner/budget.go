package runner

import (
	"context"
	"fmt"
	"math"

	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/pkg/events"
)

func (s *Service) reservation(st *State, pools []Pool, seq, epoch int64, most Amounts) Reservation {
	return Reservation{RunID: st.RunID, Namespace: st.Namespace, Seq: seq, Epoch: epoch, Pools: pools, Most: most}
}

// reserve books the next model call of st with its shared pools. A run without
// pools skips it.
func (s *Service) reserve(ctx context.Context, st *State, plan *Plan, epoch int64) (Reserved, error) {
	if len(plan.Pools) == 0 {
		return Reserved{OK: true}, nil
	}
	r, err := NextRequest(st, plan, epoch)
	if err != nil {
		return Reserved{}, fault.Terminal("transcript", err)
	}
	pools, err := s.currentPools(ctx, st.Namespace, plan.Pools)
	if err != nil {
		return Reserved{}, err
	}
	for _, p := range pools {
		if p.Unit() == unitMicroUSD && p.Hard() && r.Model.Prices == nil { // its unit was changed while the run was under way
			return Reserved{Refused: p.Name, Full: true, Amount: math.MaxInt64, Unit: p.Unit(), Reason: fmt.Sprintf("pool %s: it counts money, and model %s has no prices", p.Name, plan.answering(st).Name)}, nil
		}
	}
	return s.store.Reserve(ctx, s.reservation(st, pools, st.Seq, epoch, r.Most(r.Model.Prices)))
}

// currentPools is what the names of pools mean now: a limit that is lowered holds
// for the next call of every run. One whose definition is gone stays as it was.
func (s *Service) currentPools(ctx context.Context, namespace string, pinned []Pool) ([]Pool, error) {
	out := make([]Pool, 0, len(pinned))
	for _, p := range pinned {
		if p.Fixed {
			out = append(out, p)
			continue
		}
		digest, err := s.defs.CurrentDigest(ctx, namespace, kindBudget, p.Name)
		if err == nil {
			p.Budget, err = s.defs.Budget(ctx, namespace, digest)
		}
		if err != nil && !isMissing(err) {
			return nil, err
		}
		if p.Budget != nil {
			out = append(out, p)
		}
	}
	return out, nil
}

// reserveCalls books the tool calls of an answer with the shared pools that count
// them. What it does not get is not called; what is not called is given back by
// the answer's commit.
func (s *Service) reserveCalls(ctx context.Context, st *State, pools []Pool, r Request, epoch int64, answer *Answer) error {
	var counting []Pool
	for _, p := range pools {
		if p.Unit() == unitToolCalls {
			counting = append(counting, p)
		}
	}
	if len(counting) == 0 || len(answer.Calls) == 0 {
		return nil
	}
	room, err := s.store.ReserveCalls(ctx, s.reservation(st, counting, r.Seq, epoch, Amounts{ToolCalls: int64(len(answer.Calls))}))
	answer.Room = &room
	return err
}

// unpriced says that a ceiling in money has nothing to count with; nil when all is
// well.
func (p *Plan) unpriced() *events.Problem {
	what := ""
	if p.Agent.Budget.Cost > 0 {
		what = "budget.cost"
	}
	for _, pool := range p.Pools {
		if pool.Unit() == unitMicroUSD {
			what = "the budget " + pool.Name
		}
	}
	for _, m := range append([]NamedModel{{p.ModelName, p.Model}}, p.Fallbacks...) {
		if what != "" && m.prices() == nil {
			return &events.Problem{Code: "budget", Message: fmt.Sprintf("%s counts money, and model %s has no prices; add spec.prices to it and start again", what, m.Name)}
		}
	}
	return nil
}

// unreserve gives back the booking of a call that was never made. A failure
// only leaves it counted as spent when the claim is taken over.
func (s *Service) unreserve(ctx context.Context, st *State, plan *Plan, epoch int64) {
	if len(plan.Pools) == 0 {
		return
	}
	if err := s.store.Unreserve(ctx, s.reservation(st, plan.Pools, st.Seq, epoch, Amounts{}), s.worker); err != nil {
		s.logFor(st.RunID).Warn("reservation not given back", "err", err)
	}
	s.moved()
}

// noRoom handles a refused reservation: a pool that is used up pauses the run
// until it is raised, or ends it, as the pool says; for one that is only booked by others it stands in a
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
	d, err := DecideRefused(l.State, r, Claimed{Cause: m.ID, Worker: s.worker}, l.Now)
	if err != nil {
		return err
	}
	c := Commit{Before: l.State, After: d.State, Facts: d.Facts, Worker: s.worker, Cause: m.ID, CancelledAt: cancelMoment(l), Refused: &r}
	_, at, err := s.commit(ctx, c)
	if err != nil {
		return err
	}
	s.cache.put(d.State)
	return s.send(ctx, d.State, plan, d.Facts, at)
}

// raisePool lifts a shared pool before the command is recorded; doing it again
// changes nothing. One that is recorded has lifted it, and may come again behind a
// lower limit.
func (s *Service) raisePool(ctx context.Context, st *State, plan *Plan, in Input) error {
	if in.Command == nil || in.What != events.RunRaiseBudget || st.Causes.has(in.Cause) || st.overtaken(*in.Command) != "" {
		return nil
	}
	name, shared := sharedPool(in.Command.Budget)
	if !shared {
		return nil
	}
	pools, err := s.currentPools(ctx, st.Namespace, plan.Pools)
	if err != nil {
		return err
	}
	for _, p := range pools {
		if p.Name == name {
			defer s.raised(PausedPool{Namespace: st.Namespace, Name: p.Name})
			return s.store.RaisePool(ctx, st.Namespace, p, in.Command.To)
		}
	}
	return nil
}
