package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/internal/lifecycle"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// HandleStep takes an owed model call. The puller has a slot for it.
func (s *Service) HandleStep(ctx context.Context, m events.Received) error {
	id, _, err := runOf(m)
	if err != nil {
		return err
	}
	return s.parkOn(ctx, id, m.ID, s.survive(func() error {
		var next *claimed
		err := s.gated(ctx, id, Input{}, stageAnswer, func(asBatch bool) (err error) {
			next, err = s.locked(ctx, id, func() (*claimed, error) { return s.stepOnce(ctx, id, m, asBatch) })
			return err
		})
		if err != nil || next == nil {
			return err
		}
		return s.thinkWith(ctx, *next, func() {})
	}))
}

func (s *Service) stepOnce(ctx context.Context, id events.RunID, m events.Received, asBatch bool) (*claimed, error) {
	for {
		l, err := s.store.Load(ctx, id, s.cache.get(id))
		if errors.Is(err, ErrDeleted) {
			s.dropped(ctx, id, m)
			return nil, nil
		}
		if errors.Is(err, ErrNoRun) {
			return nil, fault.Terminal("unknown_run", err)
		}
		if err != nil {
			return nil, err
		}
		s.cache.put(l.State)
		if !asBatch && l.State.isBatch(nil, Input{}) {
			return nil, errBehind
		}
		plan, err := s.plan(ctx, l.State)
		if err != nil {
			return nil, err
		}
		// A step that was redelivered re-publishes what its answer said.
		if m.Redelivered() {
			rows, err := s.store.RowsOf(ctx, id, m.ID, afterStep(m.ID))
			if err != nil {
				return nil, err
			}
			for _, f := range rows {
				if err := s.send(ctx, l.State, plan, []Fact{f}, f.At); err != nil {
					return nil, err
				}
			}
		}
		next, err := s.drive(ctx, l, plan, m)
		if !errors.Is(err, ErrVersionConflict) {
			return next, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// think makes the model calls of a claim that a fact's commit took, then gives
// its slot back.
func (s *Service) think(ctx context.Context, c claimed) error {
	return s.thinkWith(ctx, c, s.slots.Release)
}

func (s *Service) thinkWith(ctx context.Context, c claimed, release func()) error {
	defer release()
	defer s.setIdle(c.run, c.Epoch)
	for {
		again, err := s.turn(ctx, c)
		if err != nil {
			return s.handOver(ctx, &c, err)
		}
		if !again {
			return nil
		}
	}
}

// turn makes one model call and commits its outcome. It returns true when the
// run owes another call that the same claim covers.
func (s *Service) turn(ctx context.Context, c claimed) (again bool, err error) {
	l, plan, err := s.ownedState(ctx, c)
	if err != nil {
		return false, err
	}
	if l.State.Moving != nil {
		if moved, err := s.moveFirst(ctx, c); moved || err != nil {
			return false, err
		}
		if l, plan, err = s.ownedState(ctx, c); err != nil {
			return false, err
		}
	}
	request, err := s.request(l.State, plan, c)
	if err != nil {
		return false, fault.Terminal("transcript", err)
	}
	now, waited, err := s.awaitTurn(ctx, c, l, plan, request)
	if err != nil || !now {
		return false, err
	}
	if waited || !s.heart.Fresh() {
		// Asleep since the claim? Then somebody may have taken over: wait until
		// the database has seen this process again and read the claim once more.
		if err := s.heart.WaitFresh(ctx); err != nil {
			return false, err
		}
		if l, plan, err = s.ownedState(ctx, c); err != nil {
			return false, err
		}
	}
	if !l.State.OwesModelCall() { // paused, cancelled or ended since the claim
		s.unreserve(ctx, l.State, plan, c.Epoch)
		return false, s.store.Release(ctx, c.run, Claim{Worker: s.worker, Epoch: c.Epoch})
	}
	if err := failpoint.Hit("runner.claimed", string(c.run)); err != nil {
		return false, err
	}
	var shown *attempt // nobody watches a summary
	if !request.Summary {
		shown = s.live.attempt(request, l.State.Namespace)
	}
	if shown != nil {
		request.Show = shown.show
	}
	asked := time.Now()
	answer, callErr := s.model.Answer(ctx, request)
	s.metrics.called(ctx, asked, callErr)
	shown.end(callErr == nil)
	if callErr == nil {
		s.settleTurn(ctx, l.State, plan, request, answer.Usage)
	}
	if callErr != nil && ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if err := failpoint.Hit("runner.answered", string(c.run)); err != nil {
		return false, err
	}
	return s.conclude(ctx, c, request, answer, callErr)
}

// ownedState loads the run and checks that the claim is still c's.
func (s *Service) ownedState(ctx context.Context, c claimed) (Loaded, *Plan, error) {
	l, err := s.store.Load(ctx, c.run, s.cache.get(c.run))
	if err != nil {
		return Loaded{}, nil, err
	}
	if l.Claim.Epoch != c.Epoch || l.Claim.Worker != s.worker {
		return Loaded{}, nil, fmt.Errorf("run %s epoch %d, now %d: %w: %w", c.run, c.Epoch, l.Claim.Epoch, ErrFenced, fault.ErrLost)
	}
	s.cache.put(l.State)
	plan, err := s.plan(ctx, l.State)
	return l, plan, err
}

// conclude commits what the model call gave. While the epoch is ours an answer
// is never thrown away: on a conflict, and on a commit whose reply was lost, the
// run is read again and the same answer decided again.
func (s *Service) conclude(ctx context.Context, c claimed, r Request, answer Answer, callErr error) (again bool, err error) {
	full := false
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err = s.gated(ctx, c.run, Input{}, stageAnswer, func(bool) error {
			_, err := s.locked(ctx, c.run, func() (_ *claimed, err error) {
				again, err = s.concludeOnce(ctx, c, r, answer, callErr, full)
				return nil, err
			})
			return err
		})
		switch {
		case err == nil || errors.Is(err, fault.ErrLost) || errors.Is(err, errPublish) || errors.Is(err, ErrNewer):
			return again, err
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case errors.Is(err, ErrTreeFull):
			full = true
			continue
		case errors.Is(err, ErrVersionConflict):
			continue
		}
		if _, terminal := fault.TerminalCode(err); terminal {
			return false, err
		}
		s.logFor(c.run).Warn("answer not committed yet", "err", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

var errPublish = errors.New("committed, not published")

func (s *Service) concludeOnce(ctx context.Context, c claimed, r Request, answer Answer, callErr error, full bool) (again bool, err error) {
	l, err := s.store.Load(ctx, c.run, s.cache.get(c.run))
	if err != nil {
		return false, err
	}
	plan, err := s.plan(ctx, l.State)
	if err != nil {
		return false, err
	}
	answer.Messages = r.Messages
	if answer.MayBegin, err = s.mayBegin(ctx, l.State, full); err != nil {
		return false, err
	}
	if mine := OwnAnswer(l.State, c.Claimed, r, answer, callErr); mine != 0 {
		// The reply of our own commit was lost; the row is there.
		return s.sendAnswer(ctx, l, plan, c, mine)
	}
	if l.Claim.Epoch != c.Epoch || l.Claim.Worker != s.worker {
		return false, fmt.Errorf("answer for run %s epoch %d, now %d: %w: %w", c.run, c.Epoch, l.Claim.Epoch, ErrFenced, fault.ErrLost)
	}
	pools, err := s.currentPools(ctx, l.State.Namespace, plan.Pools)
	if err != nil {
		return false, err
	}
	if r.Summary {
		// None of its calls is made.
	} else if err := s.reserveCalls(ctx, l.State, pools, r, c.Epoch, &answer); err != nil {
		return false, err
	}
	d, used, err := DecideOutcome(l.State, plan, r, answer, callErr, c.Claimed, l.Now)
	if err != nil {
		return false, fault.Terminal("decide", err)
	}
	commit := Commit{Before: l.State, After: d.State, Facts: d.Facts, Worker: s.worker, Cause: c.Cause, CancelledAt: cancelMoment(l),
		Guard: Claim{Worker: s.worker, Epoch: c.Epoch}, Claim: ClaimClear, Alerts: ownAlerts(d.before(l.State), d.State, d.after(plan), l.Now)}
	if len(plan.Pools) > 0 {
		commit.Settle = &Settlement{Reservation: s.reservation(l.State, pools, r.Seq, c.Epoch, Amounts{}), Used: used}
	}
	plan = d.after(plan)
	again = d.State.OwesModelCall() && s.keeps(ctx, d.State)
	if again {
		reserved, err := s.reserve(ctx, d.State, plan, c.Epoch)
		if err != nil {
			return false, err
		}
		if again = reserved.OK; again {
			commit.Claim = ClaimKeep
		}
	}
	_, at, err := s.commit(ctx, commit)
	if err != nil {
		if again {
			s.unreserve(ctx, d.State, plan, c.Epoch)
		}
		return false, err
	}
	s.cache.put(d.State)
	if commit.Settle != nil {
		s.moved()
	}
	if err := failpoint.Hit("runner.answer_committed", string(c.run)); err != nil {
		return false, err
	}
	if err := s.send(ctx, d.State, plan, d.Facts, at); err != nil {
		if again { // whoever makes the next call reserves for it
			s.unreserve(ctx, d.State, plan, c.Epoch)
		}
		return false, fmt.Errorf("%w: %w", errPublish, err)
	}
	if d.State.OwesModelCall() && !again {
		return false, s.publishStep(ctx, d.State, c.Epoch)
	}
	return again, nil
}

// DecideOutcome says what the outcome of a model call adds to a run, and what it
// used of shared budgets. It is pure.
func DecideOutcome(st *State, plan *Plan, r Request, answer Answer, callErr error, by Claimed, now time.Time) (d Decision, used Amounts, err error) {
	prices := plan.answering(st).prices()
	decide := DecideAnswer
	if r.Summary && callErr == nil {
		decide, callErr = DecideSummary, summaryOf(answer)
	}
	if callErr == nil {
		d, err = decide(st, plan, answer, by, now)
		return d, usedBy(st, d.State, &answer.Usage, Cost(prices, answer.Usage)), err
	}
	e, ok := errors.AsType[*ModelError](callErr)
	if !ok {
		e = &ModelError{Code: "model_call", Retry: true, Err: callErr}
	}
	if e.Usage = r.billed(e); e.Usage != nil {
		used = Amounts{Tokens: e.Usage.Total(), MicroUSD: Cost(prices, *e.Usage), ModelCalls: 1}
	}
	d, err = DecideFailure(st, plan, e, by, now)
	return d, used, err
}

// OwnAnswer finds the row that this very answer was committed in, under the claim
// of c; 0 when it was not. It is pure.
func OwnAnswer(st *State, c Claimed, r Request, answer Answer, callErr error) int64 {
	if callErr != nil {
		return 0
	}
	if done := st.Compacted; r.Summary {
		if done != nil && done.Seq > r.Seq && done.by == (Claimed{Worker: c.Worker, Epoch: c.Epoch}) {
			return done.Seq
		}
		return 0
	}
	if len(st.Turns) == 0 {
		return 0
	}
	last := st.Turns[len(st.Turns)-1]
	if last.Seq > r.Seq && last.Answer.Worker == c.Worker && last.Answer.Epoch == c.Epoch && last.Answer.Raw == answer.Raw {
		return last.Seq
	}
	return 0
}

// sendAnswer publishes the rows of an answer whose commit is known from reading.
func (s *Service) sendAnswer(ctx context.Context, l Loaded, plan *Plan, c claimed, seq int64) (again bool, err error) {
	rows, err := s.store.RowsOf(ctx, c.run, c.Cause, seq)
	if err != nil {
		return false, err
	}
	for _, f := range rows {
		if err := s.send(ctx, l.State, plan, []Fact{f}, f.At); err != nil {
			return false, fmt.Errorf("%w: %w", errPublish, err)
		}
	}
	owes, mine := l.State.OwesModelCall(), l.Claim.Worker == s.worker && l.Claim.Epoch == c.Epoch
	if owes && !l.Claim.Held() {
		return false, s.publishStep(ctx, l.State, l.Claim.Epoch)
	}
	return owes && mine, nil
}

func (s *Service) publishStep(ctx context.Context, st *State, epoch int64) error {
	if err := s.askStep(ctx, st, epoch); err != nil {
		return fmt.Errorf("%w: %w", errPublish, err)
	}
	return nil
}

// leave drops the claim of a run that a newer release has written to meanwhile,
// and publishes a step that only such a release can take. What this process has
// of an answer is lost: it cannot say what it means for rows that it cannot read.
func (s *Service) leave(ctx context.Context, c claimed, err error) error {
	s.setIdle(c.run, c.Epoch)
	known := s.cache.get(c.run)
	if known == nil {
		return err
	}
	if releaseErr := s.store.Release(ctx, c.run, Claim{Worker: s.worker, Epoch: c.Epoch}); releaseErr != nil {
		return errors.Join(err, releaseErr)
	}
	s.logFor(c.run).Info("left to a newer release", "epoch", c.Epoch)
	return s.publishStep(ctx, known, c.Epoch+1)
}

// handOver lets go of a claim that this process does not work on any more, so that
// whoever gets the message makes the call, and does not find a claim whose owner
// lives. When the process is stopping, a step is published too, and the message
// acknowledged; any other error goes back as it is.
func (s *Service) handOver(ctx context.Context, c *claimed, err error) error {
	s.metrics.refused(ctx, err)
	if c != nil && errors.Is(err, ErrNewer) {
		return s.leave(ctx, *c, err)
	}
	// What is lost is another's; a terminal fault parks the run, and the claim goes with that.
	if _, terminal := fault.TerminalCode(err); c == nil || terminal || errors.Is(err, fault.ErrLost) {
		return err
	}
	s.setIdle(c.run, c.Epoch)
	out, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if !errors.Is(err, lifecycle.ErrStopping) {
		if releaseErr := s.store.Release(out, c.run, Claim{Worker: s.worker, Epoch: c.Epoch}); releaseErr != nil {
			return errors.Join(err, releaseErr)
		}
		return err
	}
	l, loadErr := s.store.Load(out, c.run, s.cache.get(c.run))
	if loadErr != nil {
		return errors.Join(err, loadErr)
	}
	if l.Claim.Worker != s.worker || l.Claim.Epoch != c.Epoch {
		return err
	}
	if releaseErr := s.store.Release(out, c.run, l.Claim); releaseErr != nil {
		return errors.Join(err, releaseErr)
	}
	if publishErr := s.publishStep(out, l.State, c.Epoch+1); publishErr != nil {
		return errors.Join(err, publishErr)
	}
	s.logFor(c.run).Info("handed over while stopping", "epoch", c.Epoch)
	return nil
}
