package runner

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// PastReader reads what a fork begins with.
type PastReader interface {
	// Past reads a run's rows as they are, and what the ledger has of its calls. It
	// returns ErrNoRun outside of the namespace, and ErrNewer like Load.
	Past(ctx context.Context, namespace string, id events.RunID) (Past, error)
}

// firstFork makes a run that goes on from another's rows. An order that cannot be
// carried out was accepted, so it is recorded as a run that fails with the reason.
func (s *Service) firstFork(ctx context.Context, id events.RunID, m events.Received, in Input, now time.Time) (*claimed, error) {
	o := *in.Fork
	if o.AcceptedAt.IsZero() {
		o.AcceptedAt = id.Time()
	}
	before := NewState(id, m.Namespace)
	most, err := s.mayBegin(ctx, before, in.Full)
	if err != nil {
		return nil, err
	}
	d := &decision{state: before.Clone(), cause: m.ID, worker: s.worker, now: now, mayBegin: most}
	plan, err := s.beginFork(ctx, m.Namespace, d, o)
	if err != nil {
		if !errors.Is(err, errFork) && !isMissing(err) && !errors.Is(err, ErrNoRun) {
			return nil, err
		}
		plan = &Plan{Flow: &spec.Flow{}, Agent: &spec.Agent{}}
		d = &decision{state: before.Clone(), cause: m.ID, worker: s.worker, now: d.now}
		started := startedFrom(events.RunStarted{Ref: o.Ref, Input: o.Edits.Input}, o, 0)
		if len(started.Input) == 0 {
			started.Input = []byte("null")
		}
		err = errors.Join(
			d.add(events.FactStarted, started, true),
			d.add(events.FactFailed, events.Ending{Error: &events.Problem{Code: "fork", Message: clip(err.Error(), 900)}}, false))
	}
	if err == nil && d.state.Queued && d.state.End == "" {
		return s.enterRun(ctx, m, plan, before, d.state.Started, now, func(e Placing) (Decision, error) {
			err := d.entered(e)
			if err == nil {
				err = d.advance(plan)
			}
			return Decision{Facts: d.facts, State: d.state}, err
		})
	}
	if err == nil {
		err = d.advance(plan)
	}
	if err != nil {
		return nil, fault.Terminal("decide", err)
	}
	c := Commit{Before: before, After: d.state, Facts: d.facts, Worker: s.worker, Cause: m.ID, CancelledAt: now}
	return s.commitAndSend(ctx, Loaded{State: before}, plan, c, s.create)
}

// beginFork reads the old run and lets d add the rows of the new one.
func (s *Service) beginFork(ctx context.Context, namespace string, d *decision, o events.ForkRun) (*Plan, error) {
	past, err := s.store.Past(ctx, namespace, o.From)
	if err != nil {
		return nil, err
	}
	started, err := past.started()
	if err != nil {
		return nil, err
	}
	if started.Ref.Kind != events.KindAgent {
		return s.beginFlowAgain(ctx, namespace, d, o, past, started)
	}
	var plan *Plan
	if started.Model == nil { // it failed before anything was pinned
		start := &Start{Body: started}
		if plan, err = s.pin(ctx, namespace, start); err == nil && start.Broken != nil {
			err = forkf("%s", start.Broken.Message)
		}
		if err == nil {
			past.Rows[0].Data = mustJSON(start.Body)
		}
	} else {
		if started, err = past.executed(o); err == nil {
			plan, err = s.planOf(ctx, namespace, started)
		}
	}
	if err != nil {
		return nil, err
	}
	return plan, d.fork(o, past, plan)
}
