package sim

import (
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// runRows is the runner's schema: what services/runner/postgres commits, under the
// same guards.
type runRows struct {
	w     *World
	byID  map[events.RunID]*runRow
	order []events.RunID
}

type runRow struct {
	facts       []runner.Fact
	state       *runner.State
	claim       runner.Claim
	attempts    int
	cancelledAt time.Time
	causes      map[string]bool // inbound: a unique index
	pending     map[string]*pendingRow
	timers      map[string]*timerRow
	out         map[int64]bool // rows whose event is out
}

type pendingRow struct {
	next   time.Time // zero: nobody is asked about it
	nudges int
}

type timerRow struct {
	runner.Timer
	next  time.Time
	tries int
}

func newRunRows(w *World) *runRows { return &runRows{w: w, byID: map[events.RunID]*runRow{}} }

// load reads a run; nil when there is none.
func (r *runRows) load(id events.RunID) (runner.Loaded, bool) {
	row := r.byID[id]
	if row == nil {
		return runner.Loaded{Now: r.w.now}, false
	}
	return runner.Loaded{State: row.state, Claim: row.claim, Now: r.w.now, CancelledAt: row.cancelledAt, Attempts: row.attempts}, true
}

// rowsOf returns the rows of a cause.
func (r *runRows) rowsOf(id events.RunID, cause string) (out []runner.Fact) {
	for _, f := range r.byID[id].facts {
		if f.Cause == cause {
			out = append(out, f)
		}
	}
	return out
}

// landed reports whether a run has recorded a cause: what relays ask.
func (r *runRows) landed(id events.RunID, cause string) bool {
	row := r.byID[id]
	return row != nil && row.causes[cause]
}

// commit appends rows; false is a conflict, and nothing is written then.
func (r *runRows) commit(c runner.Commit, create bool) (epoch int64, ok bool) {
	id := c.After.RunID
	row := r.byID[id]
	switch {
	case create && row != nil, !create && row == nil:
		return 0, false
	case create:
		row = &runRow{causes: map[string]bool{}, pending: map[string]*pendingRow{}, timers: map[string]*timerRow{}, out: map[int64]bool{}}
	case row.state.Seq != c.Before.Seq:
		return 0, false
	case c.Guard.Epoch != 0 && (row.claim.Epoch != c.Guard.Epoch || row.claim.Worker != c.Worker) && r.w.flaw != FencedModel:
		return 0, false
	case (c.Claim == runner.ClaimTake || c.Unclaimed) && row.claim.Held():
		return 0, false
	}
	for _, f := range c.Facts {
		if f.Inbound && row.causes[f.Cause] {
			return 0, false
		}
	}
	if create {
		r.byID[id] = row
		r.order = append(r.order, id)
	}
	for _, f := range c.Facts {
		f.At = r.w.now
		row.causes[f.Cause] = row.causes[f.Cause] || f.Inbound
		r.w.onFact(id, row, f)
		row.facts = append(row.facts, f)
	}
	row.state = c.After
	switch c.Claim {
	case runner.ClaimTake:
		row.claim = runner.Claim{Worker: c.Worker, Epoch: row.claim.Epoch + 1, Cause: c.Cause}
	case runner.ClaimClear:
		row.claim.Worker, row.claim.Cause = "", ""
	}
	if c.Guard.Epoch > 0 && !c.Waits || c.Before.Attention != nil && c.After.Attention == nil {
		row.attempts = 0
	}
	if c.After.Cancel != nil && row.cancelledAt.IsZero() {
		row.cancelledAt = c.CancelledAt
	}
	row.project(r.w.now)
	r.w.onRun(id, row)
	return row.claim.Epoch, true
}

// project makes the rows of what the run waits for those of its state.
func (row *runRow) project(now time.Time) {
	has := map[string]bool{}
	for _, p := range row.state.PendingItems() {
		has[p.Item] = true
		if row.pending[p.Item] == nil {
			row.pending[p.Item] = &pendingRow{next: now.Add(30 * time.Second)}
			if p.Kind == "signal" || p.Kind == "timer" || p.Kind == "slots" {
				row.pending[p.Item].next = time.Time{}
			}
		}
	}
	for item := range row.pending {
		if !has[item] {
			delete(row.pending, item)
		}
	}
	has = map[string]bool{}
	for _, t := range row.state.Timers(row.cancelledAt) {
		has[t.Name] = true
		if row.timers[t.Name] == nil {
			row.timers[t.Name] = &timerRow{Timer: t, next: t.Due}
		}
	}
	for name := range row.timers {
		if !has[name] {
			delete(row.timers, name)
		}
	}
}

// claimFree takes a free claim of a run that is still at row seq.
func (r *runRows) claimFree(id events.RunID, seq int64, worker, cause string) (epoch int64, ok bool) {
	row := r.byID[id]
	if row.state.Seq != seq || row.claim.Held() {
		return 0, false
	}
	row.claim = runner.Claim{Worker: worker, Epoch: row.claim.Epoch + 1, Cause: cause}
	return row.claim.Epoch, true
}

// takeOver moves a claim away from a dead worker, to nobody when worker is empty.
func (r *runRows) takeOver(id events.RunID, old runner.Claim, taker, worker, cause string) (epoch int64, attempts int, ok bool) {
	row := r.byID[id]
	if row.claim.Worker != old.Worker || row.claim.Epoch != old.Epoch {
		return 0, 0, false
	}
	if old.Worker != taker {
		if !r.w.mayTake(taker, old.Worker) {
			return 0, 0, false
		}
		row.attempts++
	}
	row.claim = runner.Claim{Worker: worker, Epoch: old.Epoch + 1}
	if worker != "" {
		row.claim.Cause = cause
	}
	return row.claim.Epoch, row.attempts, true
}

// release drops a claim that is still c.
func (r *runRows) release(id events.RunID, c runner.Claim) {
	row := r.byID[id]
	if row != nil && row.claim.Worker == c.Worker && row.claim.Epoch == c.Epoch {
		row.claim = runner.Claim{Epoch: c.Epoch + 1}
	}
}

// refold reads every journal from its first row: a run is what its rows say.
func (r *runRows) refold() error {
	for _, id := range r.order {
		row := r.byID[id]
		s := runner.NewState(id, row.state.Namespace)
		for _, f := range row.facts {
			if err := s.Apply(f); err != nil {
				return err
			}
			if s.Status() != f.Status {
				return fmt.Errorf("run %s row %d says %s, folded it is %s", id, f.Seq, f.Status, s.Status())
			}
		}
		if fmt.Sprint(s.PendingItems()) != fmt.Sprint(row.state.PendingItems()) {
			return fmt.Errorf("run %s waits for %v, folded for %v", id, row.state.PendingItems(), s.PendingItems())
		}
	}
	return nil
}
