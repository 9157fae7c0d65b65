package runner

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// errBusy is a claim that another live worker holds: its message comes back.
var errBusy = errors.New("another worker makes the model call")

const (
	busyWait = 500 * time.Millisecond
	// early is how long a message for a run without a row is kept: its start
	// may still be on its way.
	early = 30 * time.Minute
)

// Handle takes a fact or a command for a run: receive, load, decide, commit,
// publish; the bus acknowledges when it returns nil. A commit that owes a model
// call takes the claim at once if a slot is free, and Handle then makes the
// call; otherwise it publishes a step.
func (s *Service) Handle(ctx context.Context, m events.Received) error {
	id, what, err := runOf(m)
	if err != nil {
		return err
	}
	in, err := DecodeInput(m, what)
	if err != nil {
		return fault.Terminal("decode", err)
	}
	at := stageFact
	if in.Start != nil {
		at = stageStart
	}
	return s.parkOn(ctx, id, m.ID, s.survive(func() error {
		var next *claimed
		err := s.gated(ctx, id, in, at, func(asBatch bool) (err error) {
			next, err = s.locked(ctx, id, func() (*claimed, error) { return s.record(ctx, id, m, in, asBatch) })
			return err
		})
		if err != nil || next == nil {
			return comeAgain(err, m.Delivered)
		}
		return s.think(ctx, *next)
	}))
}

// locked runs f while no other handler of this process works on the run.
func (s *Service) locked(ctx context.Context, id events.RunID, f func() (*claimed, error)) (*claimed, error) {
	unlock, err := s.locks.lock(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return f()
}

// survive turns a panic into a terminal fault: the run that provoked it is
// parked instead of taking one worker after the other with it.
func (s *Service) survive(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("panic in a handler", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = fault.Terminal("panic", fmt.Errorf("the runner met an impossible state: %v", p))
		}
	}()
	return f()
}

// errStranger is a message that fits nothing the run ever asked for. It says
// nothing about the run, so it is rejected and the run goes on.
var errStranger = errors.New("the run never asked for this")

// parkOn stops a run that cannot go on for a reason that no retry cures, so
// that a person sees it. Any other error goes back as it is, and so does the
// fault when there is no run to park.
func (s *Service) parkOn(ctx context.Context, id events.RunID, cause string, err error) error {
	code, terminal := fault.TerminalCode(err)
	if !terminal || errors.Is(err, errStranger) {
		return err
	}
	for {
		l, loadErr := s.store.Load(ctx, id, s.cache.get(id))
		if errors.Is(loadErr, ErrNoRun) {
			return err
		}
		if damage, ok := errors.AsType[*DamagedError](loadErr); ok {
			return s.parkDamaged(ctx, id, damage, err)
		}
		if loadErr != nil {
			return loadErr
		}
		if l.State.End != "" || l.State.Attention != nil {
			return err
		}
		problem := events.Problem{Code: code, Message: clip(err.Error(), 500) + "; mend the cause, then: holdfast runs resume " + string(id)}
		d, parkErr := Park(l.State, problem, Claimed{Cause: cause, Worker: s.worker}, l.Now)
		if parkErr != nil {
			return errors.Join(err, parkErr)
		}
		c := Commit{Before: l.State, After: d.State, Facts: d.Facts, Worker: s.worker, Cause: cause, CancelledAt: cancelMoment(l), Waits: true}
		if l.Claim.Worker == s.worker {
			c.Claim, c.Guard = ClaimClear, l.Claim
		}
		_, at, commitErr := s.commit(ctx, c)
		if errors.Is(commitErr, ErrVersionConflict) && ctx.Err() == nil {
			continue
		}
		if commitErr != nil {
			return commitErr
		}
		s.logFor(id).Error("run parked", "code", code, telemetry.KeyErr, err)
		// Its event goes out with or without the definitions.
		return s.send(ctx, d.State, &Plan{}, d.Facts, at)
	}
}

// parkDamaged parks a run without a state to decide from. The message is
// answered: what it brings is asked for again once the run goes on.
func (s *Service) parkDamaged(ctx context.Context, id events.RunID, d *DamagedError, err error) error {
	tell, tellErr := s.damageNotice(ctx, id, d)
	if tellErr != nil {
		return tellErr
	}
	f, namespace, parkErr := s.store.ParkDamaged(ctx, id, d, s.worker, tell)
	if errors.Is(parkErr, ErrVersionConflict) {
		return err // it is parked already, or moved, and is looked at again
	}
	if parkErr != nil {
		return errors.Join(err, parkErr)
	}
	s.cache.forget(id)
	s.metrics.damaged(ctx)
	s.logFor(id).Error("run parked", "code", codeDamaged, telemetry.KeyErr, d)
	return s.send(ctx, NewState(id, namespace), &Plan{}, []Fact{f}, f.At)
}

// claimed is a model call that this process owes.
type claimed struct {
	Claimed
	run events.RunID
}

func runOf(m events.Received) (id events.RunID, what string, err error) {
	parts := strings.Split(m.Subject, ".")
	if len(parts) != 4 || !events.RunID(parts[2]).Valid() {
		return "", "", fault.Terminal("subject", fmt.Errorf("subject %.200q names no run", m.Subject))
	}
	return events.RunID(parts[2]), parts[3], nil
}

// record brings one message into the run and sends what follows. It returns the
// model call to make, if the commit took the claim.
func (s *Service) record(ctx context.Context, id events.RunID, m events.Received, in Input, asBatch bool) (*claimed, error) {
	for {
		next, err := s.recordOnce(ctx, id, m, in, asBatch)
		in.Full = in.Full || errors.Is(err, ErrTreeFull)
		if !errors.Is(err, ErrVersionConflict) && !errors.Is(err, ErrTreeFull) {
			return next, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

func (s *Service) recordOnce(ctx context.Context, id events.RunID, m events.Received, in Input, asBatch bool) (*claimed, error) {
	l, err := s.store.Load(ctx, id, s.cache.get(id))
	if errors.Is(err, ErrDeleted) {
		s.dropped(ctx, id, m)
		return nil, nil
	}
	if errors.Is(err, ErrNoRun) {
		return s.firstMessage(ctx, id, m, in, l.Now, asBatch)
	}
	if err != nil {
		return nil, err
	}
	plan, err := s.plan(ctx, l.State)
	if err != nil {
		return nil, err
	}
	if !asBatch && l.State.isBatch(plan, in) {
		s.cache.put(l.State)
		return nil, errBehind
	}
	if in.Start != nil {
		in.Start.Body = l.State.Started // recorded; what it pins is what counts
	}
	if err := l.State.inTurn(in.Say); err != nil {
		return nil, err
	}
	if l.State.outdated(in) {
		return nil, nil
	}
	if err := s.raisePool(ctx, l.State, plan, in); err != nil {
		return nil, err
	}
	if err := s.fetchOutput(ctx, in.Child); err != nil {
		return nil, err
	}
	if in.MayBegin, err = s.mayBegin(ctx, l.State, in.Full); err != nil {
		return nil, err
	}
	if err := s.resolveMove(ctx, l.State, &in); err != nil {
		return nil, err
	}
	in.Busy = l.Claim.Held()
	d, err := Decide(l.State, plan, in, s.worker, l.Now)
	if err != nil {
		return nil, fault.Terminal("decide", err)
	}
	if d.Recorded {
		return s.again(ctx, l, plan, m, in)
	}
	plan = d.after(plan)
	c := Commit{Before: l.State, After: d.State, Facts: d.Facts, Worker: s.worker, Cause: m.ID, CancelledAt: cancelMoment(l), Alerts: ownAlerts(d.before(l.State), d.State, plan, l.Now),
		Unclaimed: d.Plan != nil}
	return s.commitAndSend(ctx, l, plan, c, s.commit)
}

func cancelMoment(l Loaded) time.Time {
	if !l.CancelledAt.IsZero() {
		return l.CancelledAt
	}
	return l.Now
}

// firstMessage handles a run without a row: a start makes it, anything else
// waits for the start.
func (s *Service) firstMessage(ctx context.Context, id events.RunID, m events.Received, in Input, now time.Time, asBatch bool) (*claimed, error) {
	if in.Fork != nil {
		return s.firstFork(ctx, id, m, in, now)
	}
	if in.Start == nil {
		// Whoever made the id may have a clock that is behind, this process as well.
		if age := now.Sub(id.Time()); age > early {
			return nil, fault.Terminal("unknown_run", fmt.Errorf("run %s has no row; its start never arrived", id))
		}
		return nil, fault.RetryAfter(2*time.Second, fmt.Errorf("run %s: %w yet", id, ErrNoRun))
	}
	start := *in.Start // what is pinned is added to it, and it may be looked at again
	in.Start = &start
	if in.Start.Body.AcceptedAt.IsZero() {
		in.Start.Body.AcceptedAt = id.Time()
	}
	if err := s.fetchInput(ctx, in.Start); err != nil {
		return nil, err
	}
	plan, err := s.pin(ctx, m.Namespace, in.Start)
	if err != nil {
		return nil, err
	}
	in.Start.Complete(plan)
	if !asBatch && in.Start.Body.Priority == events.PriorityBatch {
		return nil, errBehind
	}
	before := NewState(id, m.Namespace)
	if in.MayBegin, err = s.mayBegin(ctx, &State{RunID: id, Started: in.Start.Body}, in.Full); err != nil {
		return nil, err
	}
	if pinKeys(plan, in.Start); len(in.Start.Body.Concurrency) > 0 && in.Start.Broken == nil {
		return s.enterRun(ctx, m, plan, before, in.Start.Body, now, func(e Placing) (Decision, error) {
			in.Start.Placing = &e
			return Decide(before, plan, in, s.worker, now)
		})
	}
	d, err := Decide(before, plan, in, s.worker, now)
	if err != nil {
		return nil, fault.Terminal("decide", err)
	}
	c := Commit{Before: before, After: d.State, Facts: d.Facts, Worker: s.worker, Cause: m.ID, CancelledAt: now}
	return s.commitAndSend(ctx, Loaded{State: before}, plan, c, s.create)
}

// commitAndSend commits, taking the claim when the run owes a model call and a
// slot is free, and publishes what the new rows say.
func (s *Service) commitAndSend(ctx context.Context, l Loaded, plan *Plan, c Commit, commit write) (*claimed, error) {
	owes := c.After.OwesModelCall()
	took := false
	if owes && !l.Claim.Held() && s.slots.TryAcquire() {
		c.Claim, took = ClaimTake, true
		reserved, err := s.reserve(ctx, c.After, plan, l.Claim.Epoch+1)
		if err != nil || !reserved.OK {
			s.slots.Release()
			if err != nil {
				return nil, err
			}
			c.Claim, took = ClaimKeep, false
		}
	}
	epoch, at, err := commit(ctx, c)
	if err != nil {
		if took {
			s.slots.Release()
			s.unreserve(ctx, c.After, plan, l.Claim.Epoch+1)
		}
		return nil, err
	}
	s.cache.put(c.After)
	var next *claimed
	if took {
		s.setActive(c.After.RunID, epoch)
		next = &claimed{run: c.After.RunID, Claimed: Claimed{Cause: c.Cause, Worker: s.worker, Epoch: epoch}}
	}
	if err := s.follow(ctx, c.After, plan, c.Facts, at); err != nil {
		if took { // the message comes back, and whoever gets it claims the call
			s.slots.Release()
			s.unreserve(ctx, c.After, plan, epoch)
		}
		return nil, s.handOver(ctx, next, err)
	}
	if OwesStep(c, l.Claim) {
		return nil, s.askStep(ctx, c.After, l.Claim.Epoch)
	}
	return next, nil
}

// follow does what comes between a commit and the model call it may owe.
func (s *Service) follow(ctx context.Context, st *State, plan *Plan, facts []Fact, at time.Time) error {
	if err := failpoint.Hit("runner.committed", string(st.RunID)); err != nil {
		return err
	}
	return s.send(ctx, st, plan, facts, at)
}

// send publishes what rows say, events included, in order and together.
func (s *Service) send(ctx context.Context, st *State, plan *Plan, facts []Fact, at time.Time) error {
	if len(st.Started.Concurrency) > 0 && (st.End != "" || st.Queued) {
		s.slotsMoved() // it freed its place, or there was one before it waited
	}
	var all []events.Message
	for _, f := range facts {
		if f.At.IsZero() || !at.IsZero() {
			f.At = at
		}
		out, err := Outgoing(st, plan, f)
		if err != nil {
			return fault.Terminal("outgoing", err)
		}
		all = append(all, out...)
	}
	if err := s.publishAll(ctx, all); err != nil {
		return err
	}
	return failpoint.Hit("runner.published", string(st.RunID))
}

// again is redelivery as outbox: everything that every row of this cause said
// goes out once more, then the state is driven.
func (s *Service) again(ctx context.Context, l Loaded, plan *Plan, m events.Received, in Input) (*claimed, error) {
	rows, err := s.store.RowsOf(ctx, l.State.RunID, m.ID, l.State.recordedFrom(m.ID))
	if err != nil {
		return nil, err
	}
	for _, f := range rows {
		if err := s.send(ctx, l.State, plan, []Fact{f}, f.At); err != nil {
			return nil, err
		}
	}
	if in.Start != nil && l.State.End != "" && l.State.Started.Parent != nil {
		return nil, s.repeatEnd(ctx, l.State, plan, m)
	}
	return s.drive(ctx, l, plan, m)
}

// repeatEnd tells a parent again how its child ended.
func (s *Service) repeatEnd(ctx context.Context, st *State, plan *Plan, m events.Received) error {
	if out, ok := EndAgain(st, plan, m.StreamSeq, time.Now()); ok {
		return s.publish(ctx, out)
	}
	return nil
}

// drive makes sure that a run which owes a model call gets it: by claiming it,
// by taking it over from a dead worker, or by leaving it to the live one.
func (s *Service) drive(ctx context.Context, l Loaded, plan *Plan, m events.Received) (*claimed, error) {
	st := l.State
	switch DecideDrive(st, l.Claim, m.ID, isStep(m), s.working(st.RunID, l.Claim)) {
	case DriveDrop:
		_, _, err := s.store.TakeOver(ctx, st.RunID, l.Claim, s.worker, "", "")
		if errors.Is(err, ErrOwnerAlive) && l.Claim.Worker != s.worker {
			return nil, fault.RetryAfter(busyWait, errBusy)
		}
		return nil, ignore(err, ErrOwnerAlive)
	case DriveAsk:
		step := s.inLane(ctx, StepAgain(st, l.Claim.Epoch, m.StreamSeq), st.Started.Ref.Name, st.Started.Priority)
		return nil, s.bus.Publish(ctx, step)
	case DriveClaim:
		return s.claim(ctx, l, plan, m)
	case DriveTakeOver:
		return s.takeOver(ctx, l, plan, m)
	}
	return nil, nil
}

func isStep(m events.Received) bool {
	return events.IsStep(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:])
}

func ignore(err, what error) error {
	if errors.Is(err, what) {
		return nil
	}
	return err
}

// working reports whether this very process is at the claim's model call.
func (s *Service) working(id events.RunID, c Claim) bool {
	return c.Worker == s.worker && s.activeEpoch(id) == c.Epoch
}

// claim takes a free claim for a step, which has come with a slot.
func (s *Service) claim(ctx context.Context, l Loaded, plan *Plan, m events.Received) (*claimed, error) {
	st := l.State
	reserved, err := s.reserve(ctx, st, plan, l.Claim.Epoch+1)
	if err != nil {
		return nil, err
	}
	if !reserved.OK {
		return nil, s.noRoom(ctx, l, plan, m, reserved)
	}
	epoch, err := s.store.Claim(ctx, st.RunID, st.Seq, s.worker, m.ID)
	if err != nil {
		s.unreserve(ctx, st, plan, l.Claim.Epoch+1)
		return nil, err
	}
	s.setActive(st.RunID, epoch)
	return &claimed{run: st.RunID, Claimed: Claimed{Cause: m.ID, Worker: s.worker, Epoch: epoch}}, nil
}

// haveSlot takes a slot for a fast message; a step came with one.
func (s *Service) haveSlot(m events.Received) bool { return isStep(m) || s.slots.TryAcquire() }

// giveSlot undoes haveSlot. The puller of steps gives its own slots back.
func (s *Service) giveSlot(m events.Received) {
	if !isStep(m) {
		s.slots.Release()
	}
}

// takeOver moves a claim away from a dead worker. Without a free slot the claim
// is dropped and a step asks whoever has one.
func (s *Service) takeOver(ctx context.Context, l Loaded, plan *Plan, m events.Received) (*claimed, error) {
	st := l.State
	slot := s.haveSlot(m)
	worker := ""
	if slot {
		worker = s.worker
	}
	epoch, attempts, err := s.store.TakeOver(ctx, st.RunID, l.Claim, s.worker, worker, m.ID)
	if err != nil {
		if slot {
			s.giveSlot(m)
		}
		if errors.Is(err, ErrOwnerAlive) {
			return nil, fault.RetryAfter(busyWait, errBusy)
		}
		return nil, err
	}
	s.metrics.tookOver(ctx)
	s.logFor(st.RunID).Info("took over from a dead worker", "from", l.Claim.Worker, "epoch", epoch, "attempt", attempts)
	by := Claimed{Cause: m.ID, Worker: s.worker, Epoch: epoch}
	switch {
	case attempts >= s.cfg.MaxAttempts:
		if slot {
			s.giveSlot(m)
		}
		return nil, s.park(ctx, l, plan, by, slot, attempts)
	case !slot:
		return nil, s.askStep(ctx, st, epoch)
	}
	reserved, err := s.reserve(ctx, st, plan, epoch)
	if err == nil && !reserved.OK {
		s.giveSlot(m)
		if err := s.store.Release(ctx, st.RunID, Claim{Worker: s.worker, Epoch: epoch}); err != nil {
			return nil, err
		}
		return nil, s.noRoom(ctx, l, plan, m, reserved)
	}
	if err != nil {
		s.giveSlot(m)
		return nil, err
	}
	s.setActive(st.RunID, epoch)
	return &claimed{run: st.RunID, Claimed: by}, nil
}

// park stops a run that lost too many workers in a row.
func (s *Service) park(ctx context.Context, l Loaded, plan *Plan, by Claimed, held bool, attempts int) error {
	d, err := Park(l.State, events.Problem{Code: codeLostWorkers, Message: fmt.Sprintf(
		"%d workers were lost in a row at this step; look at the journal, then: holdfast runs resume %s", attempts, l.State.RunID)}, by, l.Now)
	if err != nil {
		return err
	}
	c := Commit{Before: l.State, After: d.State, Facts: d.Facts, Worker: s.worker, Cause: by.Cause, CancelledAt: cancelMoment(l), Waits: true}
	if held {
		c.Claim, c.Guard = ClaimClear, Claim{Worker: s.worker, Epoch: by.Epoch}
	}
	_, at, err := s.commit(ctx, c)
	if err != nil {
		return err
	}
	s.cache.put(d.State)
	return s.send(ctx, d.State, plan, d.Facts, at)
}
