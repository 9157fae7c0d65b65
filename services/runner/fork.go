package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Past is what a fork looks at of the run that it comes from.
type Past struct {
	Namespace string
	// Rows are the run's, in order, unread: those behind the one that is taken need
	// not be readable.
	Rows []Fact
	// Ledger is what the tools service has of the run's calls that change something.
	Ledger []LedgerCall
}

// LedgerCall is a call as the ledger knows it.
type LedgerCall struct {
	CallID     events.CallID
	Tool       string
	ArgsDigest events.Digest
	Key        string // as the runner minted it
	Status     string // of the call: open, or events.Call…
	Effect     string // state of its effect; empty when it has none
}

// copied reports whether row seq was taken over from another run.
func (s *State) copied(seq int64) bool {
	return s.Started.Origin != nil && seq > 1 && seq <= s.Started.Origin.Row
}

// forked folds the row behind the rows that were taken over: the run stands
// between two turns, nothing is open and nothing holds it.
func (s *State) forked(f events.Forked) error {
	s.Fork, s.Guarded = &f, s.Guarded || !f.Retry
	s.Moving, s.Refusals = nil, nil
	s.Queued, s.SlotWait, s.Shared = len(s.Started.Concurrency) > 0, nil, nil
	s.Pause, s.Attention, s.Retry, s.Failures, s.Overtime, s.Overdue = nil, nil, nil, 0, 0, false // its time is counted anew
	maps.DeleteFunc(s.Items, func(_ string, it *Item) bool { return it.Done == nil })
	if len(f.Edits.Input) > 0 {
		s.Started.Input, s.First = f.Edits.Input, ""
	}
	if f.Edits.Prompt != "" {
		s.Prompt = f.Edits.Prompt
	}
	if f.Edits.Instructions != "" {
		s.System = f.Edits.Instructions
	}
	for id, result := range f.Edits.Results {
		old, ok := s.call(id)
		if !ok || old.Done == nil {
			return fmt.Errorf("the edited call %s has no result", id)
		}
		c, done := *old, *old.Done // other copies of the state keep theirs
		done.Status, done.Result, done.Error, done.InDoubt = events.CallSucceeded, result, nil, ""
		c.Done, c.shown = &done, nil
		if _, last := s.Calls[id]; last {
			s.Calls[id] = &c
		} else {
			s.DoneCalls.put(id, &c)
		}
	}
	s.beginning = &beginning{} // results may have become others
	s.Repairing = s.Repairing && f.Edits.None()
	if f.Edits.Message != "" {
		s.heard(f.Edits.Message)
	}
	return nil
}

// firstMessage is what the conversation begins with.
func (s *State) firstMessage(plan *Plan) (string, error) {
	if s.Prompt != "" {
		return s.Prompt, nil
	}
	if s.First != "" {
		return s.First, nil
	}
	return spec.FirstMessage(plan.Agent, s.Started.Input)
}

// betweenTurns reports whether another run can go on from here: the model would be
// asked next, every call has its result, and nothing was taken back.
func (s *State) betweenTurns(message bool) bool {
	if s.End != "" || s.Cancel != nil || s.Seq == 0 || s.awaitsResults() {
		return false
	}
	if len(s.Turns) == 0 {
		return true
	}
	last := s.Turns[len(s.Turns)-1].Answer
	return s.goesOn(last) && s.stuck() == nil || concluded(last) && (message || s.unread())
}

// awaitsResults reports whether something that the run asked for has no result yet.
func (s *State) awaitsResults() bool {
	if s.openCalls() {
		return true
	}
	for _, it := range s.Items {
		if it.Done == nil && !it.Detached {
			return true
		}
	}
	return false
}

// safeRow finds the newest row up to at (0: any) that a run can go on from. It
// returns how far the rows can be read, and why not further.
func (p Past) safeRow(id events.RunID, at int64, message bool) (row, read int64, damage error) {
	s := NewState(id, p.Namespace)
	for _, f := range p.Rows {
		if at > 0 && f.Seq > at {
			break
		}
		if damage = s.Apply(f); damage != nil {
			break
		}
		if s.betweenTurns(message) {
			row = s.Seq
		}
	}
	return row, s.Seq, damage
}

// changes reports whether a call of the tool may change something outside of its
// run: what a fork asks a person about.
func changes(t *spec.Tool) bool {
	if t == nil || t.Effect == spec.EffectRead {
		return false
	}
	return t.Builtin == "" || t.Builtin == spec.BuiltinStartRun
}

// Begun are the rows of the new run and its first state, or why there is none.
type Begun struct {
	Decision
	Started events.RunStarted // of the old run; what to load the definitions of
}

// errFork is an order that cannot be carried out as it was given: the new run is
// recorded and fails with it.
var errFork = errors.New("fork")

func forkf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errFork, fmt.Sprintf(format, args...))
}

// started reads the first row of the old run.
func (p Past) started() (events.RunStarted, error) {
	var body events.RunStarted
	if len(p.Rows) == 0 || p.Rows[0].Seq != 1 || p.Rows[0].Kind != events.FactStarted {
		return body, forkf("the first row is gone: what the run executes is not known")
	}
	if err := json.Unmarshal(p.Rows[0].Data, &body); err != nil {
		return body, forkf("the first row cannot be read (%v): what the run executes is not known", err)
	}
	return body, nil
}

// executed is what the old run executed at the row that a fork takes.
func (p Past) executed(o events.ForkRun) (events.RunStarted, error) {
	started, err := p.started()
	if err != nil || !slices.ContainsFunc(p.Rows, func(f Fact) bool { return f.Kind == events.FactMigrated }) {
		return started, err
	}
	row, _, _ := p.safeRow(o.From, o.At, o.Edits.Message != "")
	for _, f := range p.Rows[:row] {
		if m, ok := read[events.Migrated](f); ok && f.Kind == events.FactMigrated {
			started = pinned(started, m.Pins)
		}
	}
	return started, nil
}

// fork begins a run with the rows of another. It is pure; plan is what the old
// run pinned.
func (d *decision) fork(o events.ForkRun, p Past, plan *Plan) error {
	row, read, damage := p.safeRow(o.From, o.At, o.Edits.Message != "")
	switch {
	case damage != nil && o.At > read:
		return forkf("row %d of run %s cannot be read (%v); the newest row that can be taken is %d", read+1, o.From, damage, row)
	case row == 0:
		return forkf("no row of run %s stands between two turns", o.From)
	}
	started, err := p.started()
	if err != nil {
		return err
	}
	first := startedFrom(started, o, row)
	first.Deadline = deadlineAgain(started.Deadline, plan, o.AcceptedAt)
	if len(o.Edits.Input) > 0 {
		edited := &Start{Body: first}
		edited.Body.Input = o.Edits.Input
		if pinKeys(plan, edited); edited.Broken != nil {
			return forkf("%s", edited.Broken.Message)
		}
		first.Concurrency = edited.Body.Concurrency
	}
	if err := d.add(events.FactStarted, first, true); err != nil {
		return err
	}
	for _, f := range p.Rows[1:row] {
		f.Cause, f.Inbound, f.Worker, f.At = d.cause, false, d.worker, d.now
		if err := d.state.Apply(f); err != nil {
			return forkf("row %d: %v", f.Seq, err)
		}
		f.Status = d.state.Status()
		d.facts = append(d.facts, f)
	}
	for _, id := range slices.Sorted(maps.Keys(o.Edits.Results)) {
		if c, ok := d.state.call(id); !ok || c.Done == nil {
			return forkf("call %s has no result at row %d, so there is none to edit", id, row)
		} else if c.Turn < d.state.cut() {
			return forkf("at row %d a summary stands for the result of call %s, so an edit would not be read; fork at an earlier row", row, id)
		}
	}
	effects := p.effects(plan)
	if d.state.Fork != nil {
		effects = append(slices.Clone(d.state.Fork.Effects), effects...)
	}
	if err := d.add(events.FactForked, events.Forked{
		CommandID: o.ID, From: o.From, At: row, AskedAt: o.At, Retry: o.Retry, Edits: o.Edits, Principal: o.Principal, Reason: o.Reason, Effects: effects,
	}, false); err != nil {
		return err
	}
	if _, err := d.state.firstMessage(plan); err != nil {
		return d.add(events.FactFailed, events.Ending{Error: &events.Problem{Code: "prompt", Message: err.Error()}}, false)
	}
	return nil
}

// startedFrom is the first row of the new run: it pins what the old one pinned.
// Nobody waits for it and its end is posted nowhere.
func startedFrom(old events.RunStarted, o events.ForkRun, row int64) events.RunStarted {
	first := old
	first.Parent, first.Callback, first.Deadline = nil, nil, nil
	first.Concurrency = slices.Clone(old.Concurrency) // places of its own
	for i := range first.Concurrency {
		first.Concurrency[i].Of = ""
	}
	first.Origin = &events.Origin{RunID: o.From, Row: row}
	first.Trigger = events.Trigger{Kind: "fork", ID: string(o.From)}
	if o.Retry {
		first.Trigger.Kind = "retry"
	}
	first.Principal, first.AcceptedAt = o.Principal, o.AcceptedAt
	return first
}
