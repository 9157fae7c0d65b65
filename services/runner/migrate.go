package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Move is an order to move a run to another version of its agent, with what that
// means at the moment.
type Move struct {
	events.Migration
	// Plan is what the run would execute.
	Plan *Plan
	// Broken says why there is none.
	Broken *events.Problem
}

// resolveMove reads what an order moves the run to. An order that is recorded
// already, or that the run has no use for, needs nothing.
func (s *Service) resolveMove(ctx context.Context, st *State, in *Input) error {
	if in.Move == nil || st.Causes.has(in.Cause) || st.End != "" || st.Started.Ref.Kind != events.KindAgent {
		return nil
	}
	m := in.Move
	m.Broken = nil
	agent, err := s.defs.Agent(ctx, st.Namespace, m.To)
	switch {
	case isMissing(err):
		m.Broken = &events.Problem{Code: events.MigrateDefinition, Message: fmt.Sprintf("there is no version %s of an agent", m.To)}
		return nil
	case err != nil:
		return err
	case agent.Name != st.Started.Ref.Name:
		m.Broken = &events.Problem{Code: events.MigrateOther, Message: clip(fmt.Sprintf("%s is a version of the agent %s, and this run is of %s", m.To, agent.Name, st.Started.Ref.Name), 900)}
		return nil
	}
	start := &Start{Body: pinned(st.Started, events.Pins{Ref: events.Ref{Kind: events.KindAgent, Name: agent.Name, Digest: m.To}})}
	plan, err := s.pin(ctx, st.Namespace, start)
	if err != nil {
		return err
	}
	if start.Broken != nil {
		m.Broken = &events.Problem{Code: events.MigrateDefinition, Message: start.Broken.Message}
		return nil
	}
	m.Plan, m.Pins = plan, pinsOf(start.Body)
	return nil
}

// pinsOf is what a first row of an agent's run pins.
func pinsOf(b events.RunStarted) events.Pins {
	p := events.Pins{Ref: b.Ref, Fallbacks: b.Fallbacks, Tools: b.Tools, Pools: b.Pools, Starts: b.Starts, Policies: b.Policies, WallTimeMs: b.WallTimeMs, Wording: b.Wording}
	if b.Model != nil {
		p.Model = *b.Model
	}
	return p
}

// pinned is a first row that pins something else. What the start fixed stays:
// input, deadline, priority, concurrency keys.
func pinned(b events.RunStarted, p events.Pins) events.RunStarted {
	b.Ref, b.Model, b.Fallbacks, b.Tools, b.Pools, b.Starts, b.Policies, b.WallTimeMs, b.Wording = p.Ref, &p.Model, p.Fallbacks, p.Tools, p.Pools, p.Starts, p.Policies, p.WallTimeMs, p.Wording
	return b
}

// loadNext adds to a plan what the order that waits moves the run to.
func (s *Service) loadNext(ctx context.Context, st *State, p *Plan) error {
	if st.Moving == nil || st.End != "" {
		return nil
	}
	next, err := s.planOf(ctx, st.Namespace, pinned(st.Started, st.Moving.Pins))
	if isMissing(err) {
		return nil // it is refused when its turn comes
	}
	p.Next = next
	return err
}

// migrate keeps an order, or refuses it. A newer order takes the place of one that
// waits, and an older one that comes late does nothing.
func (d *decision) migrate(in Input) error {
	m, s := in.Move, d.state
	problem := m.Broken
	switch {
	case s.End != "":
		problem = &events.Problem{Code: events.MigrateEnded, Message: "the run has ended; fork it to go on under its old version, or start another"}
	case s.Cancel != nil:
		problem = &events.Problem{Code: events.MigrateCancelling, Message: "the run is being ended"}
	case s.Started.Ref.Kind != events.KindAgent:
		problem = &events.Problem{Code: events.MigrateFlow, Message: "only the run of an agent can be moved; move the runs of a flow's steps"}
	case m.ID < s.Ordered:
		problem = &events.Problem{Code: events.MigrateSuperseded, Message: "the newer order " + s.Ordered + " is there already"}
	case problem == nil && m.Plan == nil:
		return errors.New("an order without what it resolves to")
	case problem == nil && s.Moving == nil && reflect.DeepEqual(m.Pins, pinsOf(s.Started)):
		problem = &events.Problem{Code: events.MigrateUnchanged, Message: "the run executes this version, and all that it names"}
	}
	if problem != nil {
		return d.refuseMove(m.MigrateRun, *problem, true)
	}
	if old := s.Moving; old != nil {
		if err := d.refuseMove(old.MigrateRun, events.Problem{Code: events.MigrateSuperseded, Message: "the newer order " + m.ID + " came before it was carried out"}, false); err != nil {
			return err
		}
	}
	d.next = m.Plan
	return d.add(events.FactMigrationOrdered, m.Migration, true)
}

func (d *decision) refuseMove(m events.MigrateRun, p events.Problem, inbound bool) error {
	return d.add(events.FactMigrationRefused, events.MigrationRefused{MigrateRun: m, Problem: p}, inbound)
}

// betweenVersions reports whether the run stands where another version may take
// over: what it asked for has its result, and the model is to be asked next.
func (s *State) betweenVersions() bool {
	if s.awaitsResults() || s.pausedAfter(len(s.Turns)) { // a turn that the provider paused is its model's to end
		return false
	}
	if len(s.Turns) == 0 {
		return true
	}
	last := s.Turns[len(s.Turns)-1].Answer
	return s.goesOn(last) || concluded(last) && s.unread()
}

// moveOn carries out the order that waits, once it may, and returns the plan that
// holds then.
func (d *decision) moveOn(plan *Plan) (*Plan, error) {
	s := d.state
	if s.Moving == nil || d.busy || !s.betweenVersions() {
		return plan, nil
	}
	m, next := *s.Moving, cmp.Or(d.next, plan.Next)
	if p := s.unmovable(plan, next, d); p != nil {
		return plan, d.refuseMove(m.MigrateRun, *p, false)
	}
	body := events.Migrated{Migration: m, From: s.Started.Ref, Providers: plan.providers()}
	first, err := s.firstMessage(plan)
	if err != nil {
		return plan, err // the run could not begin with it
	}
	if made, err := spec.FirstMessage(next.Agent, s.Started.Input); err != nil || made != first {
		body.Prompt = first
	}
	d.plan = next
	return next, d.add(events.FactMigrated, body, false)
}

// DecideMove says what an order that waits adds to a run whose claim is by's, before
// the model is asked: nothing while it has to wait. It is pure.
func DecideMove(s *State, plan *Plan, by Claimed, now time.Time) (Decision, error) {
	if s.Moving == nil || !s.OwesModelCall() || !s.betweenVersions() {
		return Decision{State: s}, nil
	}
	d := &decision{state: s.Clone(), cause: by.Cause, worker: by.Worker, now: now}
	err := d.advance(plan)
	return Decision{Facts: d.facts, State: d.state, Plan: d.plan}, err
}

// moveFirst carries out an order that found the run claimed for a call which was not
// made: the worker died, or let the claim go. Claim and booking were for the old
// version's call, so they go in the same commit, and a step asks for the new one's.
func (s *Service) moveFirst(ctx context.Context, c claimed) (moved bool, err error) {
	for {
		_, err = s.locked(ctx, c.run, func() (_ *claimed, err error) { moved, err = s.moveOnce(ctx, c); return nil, err })
		if !errors.Is(err, ErrVersionConflict) || ctx.Err() != nil {
			return moved, err
		}
	}
}

func (s *Service) moveOnce(ctx context.Context, c claimed) (moved bool, err error) {
	l, plan, err := s.ownedState(ctx, c)
	if err != nil {
		return false, err
	}
	d, err := DecideMove(l.State, plan, c.Claimed, l.Now)
	if err != nil {
		return false, fault.Terminal("decide", err)
	}
	if len(d.Facts) == 0 {
		return false, nil
	}
	commit := Commit{Before: l.State, After: d.State, Facts: d.Facts, Worker: s.worker, Cause: c.Cause, CancelledAt: cancelMoment(l),
		Guard: Claim{Worker: s.worker, Epoch: c.Epoch}, Claim: ClaimClear, Alerts: ownAlerts(d.before(l.State), d.State, d.after(plan), l.Now)}
	if len(plan.Pools) > 0 {
		commit.Settle = &Settlement{Reservation: s.reservation(l.State, plan.Pools, l.State.Seq, c.Epoch, Amounts{})}
	}
	_, at, err := s.commit(ctx, commit)
	if err != nil {
		return false, err
	}
	s.cache.put(d.State)
	if err := s.send(ctx, d.State, d.after(plan), d.Facts, at); err != nil {
		return true, fmt.Errorf("%w: %w", errPublish, err)
	}
	if d.State.OwesModelCall() {
		err = s.publishStep(ctx, d.State, c.Epoch)
	}
	return true, err
}

// unmovable says why the run cannot go on under next; nil when it can.
func (s *State) unmovable(plan, next *Plan, d *decision) *events.Problem {
	if next == nil || next.Agent == nil {
		return &events.Problem{Code: events.MigrateDefinition, Message: "a definition that the order resolved to is gone; order it again"}
	}
	m := spec.Migration{Input: s.Started.Input, Agent: next.Agent, Model: next.Model, Now: plan.answering(s).Model, Tools: len(next.Tools)}
	for i, t := range s.Turns[s.cut():] {
		if !unsaid(t.Answer) {
			m.Answers = append(m.Answers, spec.PastAnswer{Row: t.Seq, Provider: s.providerOf(plan, s.cut()+i), Bound: t.Answer.Bound, Calls: len(t.Answer.Calls) > 0})
		}
	}
	if code, message := m.Problem(); code != "" {
		return &events.Problem{Code: code, Message: clip(message, 900)}
	}
	if next.Agent.Budget.OnExceeded != spec.OnExceededFail {
		return nil // what is used up pauses it, as budgets do
	}
	after := *s
	after.Started.WallTimeMs = next.Agent.Budget.WallTime.Std().Milliseconds()
	for _, c := range after.Ceilings(next.Agent.Budget, d.now) {
		if !c.left() && c.Name != ceilToolCalls {
			return &events.Problem{Code: events.MigrateBudget, Message: "the new version ends runs over its budget, and this one is: " + c.reason()}
		}
	}
	return nil
}

// providers says behind which API each model of the plan is.
func (p *Plan) providers() map[string]string {
	out := map[string]string{}
	for _, f := range p.Fallbacks {
		out[f.Name] = f.Provider
	}
	out[p.ModelName] = p.Model.Provider
	return out
}

// Version is a version that a run executed before it moved on.
type Version struct {
	Turns     int // answers up to its end
	Providers map[string]string
}

// providerOf is the API that answer i came over.
func (s *State) providerOf(p *Plan, i int) string {
	name := s.Turns[i].Answer.ModelName
	for _, v := range s.Versions {
		if i < v.Turns {
			return v.Providers[name]
		}
	}
	return p.providers()[name]
}

func (s *State) migrationOrdered(m events.Migration) {
	s.Moving, s.Ordered = &m, m.ID
}

func (s *State) migrationRefused(m events.MigrationRefused) {
	if s.Moving != nil && s.Moving.ID == m.ID {
		s.Moving = nil
	}
}

// migrated folds the row behind which the run executes another version. What it
// used counts on, and the conversation begins as it did.
func (s *State) migrated(seq int64, m events.Migrated) {
	s.Started = pinned(s.Started, m.Pins)
	s.Versions = append(s.Versions[:len(s.Versions):len(s.Versions)], Version{Turns: len(s.Turns), Providers: m.Providers})
	if m.Prompt != "" {
		s.First = m.Prompt
	}
	s.Moving, s.Moved, s.ModelName, s.System = nil, seq, "", ""
	s.Retry, s.Failures, s.Repairing = nil, 0, false
}

// behind reports whether row seq is from before the newest migration. All that it
// asked for had come by then, so it asks for nothing again: under the new version
// it would ask for something else.
func (s *State) behind(seq int64) bool { return seq < s.Moved }
