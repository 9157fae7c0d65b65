package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// ModelTurn asks for a moment at which a model call may begin.
type ModelTurn struct {
	RunID     events.RunID
	Namespace string
	Model     string // name of the Model; its row is what all runners share
	// Request and Tokens are how much of the model's time the call takes by each
	// limit; zero without it.
	Request, Tokens time.Duration
}

// TurnTime is when a call may begin, by the database's clock. Later says that it
// is too long to wait for it with a slot: the moment is kept for the run.
type TurnTime struct {
	At    time.Time
	Wait  time.Duration
	Later bool
}

// Turns keeps when calls of models with limits may begin.
type Turns interface {
	// TakeTurn books the next moment that is free, in the order of asking. A run
	// that has one gets it, until it is used or ten seconds over.
	TakeTurn(ctx context.Context, t ModelTurn) (TurnTime, error)
	// SettleTurn corrects what a call was taken to need of the tokens. Moments that
	// are booked stay.
	SettleTurn(ctx context.Context, t ModelTurn, more time.Duration) error
}

// turnEarly is how long before its turn a run asks for it: timers are up to a
// second late.
const turnEarly = 1500 * time.Millisecond

// turnOf is what the next call of a run needs of its model's limits; ok is false
// when it has none.
func (p *Plan) turnOf(st *State, r Request) (t ModelTurn, ok bool) {
	m := p.answering(st)
	if m.Model == nil || m.Limits == nil {
		return ModelTurn{}, false
	}
	t = ModelTurn{RunID: st.RunID, Namespace: st.Namespace, Model: m.Name}
	if n := m.Limits.RequestsPerMinute; n > 0 {
		t.Request = (time.Minute + time.Duration(n) - 1) / time.Duration(n)
	}
	t.Tokens = tokensTime(m.Limits, r.EstimateInput()+r.MaxTokens)
	return t, true
}

// tokensTime is how long so many tokens take under the limit.
func tokensTime(l *spec.ModelLimits, tokens int64) time.Duration {
	if l.TokensPerMinute == 0 {
		return 0
	}
	perMinute := time.Minute.Microseconds()
	return time.Duration(min(max(tokens, 0), 1e9)*perMinute/l.TokensPerMinute) * time.Microsecond
}

// awaitTurn waits until the model call may begin. It returns false when that is
// too long for a slot and a message: the run then waits as a timer row. waited
// says that the run may have moved since l.
func (s *Service) awaitTurn(ctx context.Context, c claimed, l Loaded, plan *Plan, r Request) (now, waited bool, err error) {
	t, limited := plan.turnOf(l.State, r)
	if !limited || !l.State.OwesModelCall() {
		return true, false, nil
	}
	at, err := s.store.TakeTurn(ctx, t)
	if err != nil {
		return false, false, err
	}
	if !at.Later {
		sleep(ctx, at.Wait)
		if ctx.Err() != nil {
			return false, false, context.Cause(ctx)
		}
		return true, at.Wait > 0, nil
	}
	s.unreserve(ctx, l.State, plan, c.Epoch)
	for {
		_, err := s.locked(ctx, c.run, func() (*claimed, error) { return nil, s.waitForTurn(ctx, c, t, at.At) })
		if !errors.Is(err, ErrVersionConflict) || ctx.Err() != nil {
			return false, false, err
		}
	}
}

// waitForTurn gives slot, claim and message back until the run's turn.
func (s *Service) waitForTurn(ctx context.Context, c claimed, t ModelTurn, at time.Time) error {
	l, plan, err := s.ownedState(ctx, c)
	if err != nil {
		return err
	}
	if !l.State.OwesModelCall() { // paused, cancelled or ended meanwhile
		return s.store.Release(ctx, c.run, Claim{Worker: s.worker, Epoch: c.Epoch})
	}
	d, err := AwaitTurn(l.State, t.Model, at, c.Claimed, l.Now)
	if err != nil {
		return fault.Terminal("decide", err)
	}
	_, committed, err := s.store.Commit(ctx, Commit{Before: l.State, After: d.State, Facts: d.Facts, Worker: s.worker, Cause: c.Cause, CancelledAt: cancelMoment(l),
		Guard: Claim{Worker: s.worker, Epoch: c.Epoch}, Claim: ClaimClear, Waits: true})
	if err != nil {
		return err
	}
	s.cache.put(d.State)
	return s.send(ctx, d.State, plan, d.Facts, committed)
}

// AwaitTurn says what a long wait for a model's turn adds to a run. It is pure.
func AwaitTurn(s *State, model string, at time.Time, by Claimed, now time.Time) (Decision, error) {
	d := &decision{state: s.Clone(), cause: by.Cause, worker: by.Worker, now: now}
	until := at.UTC().Truncate(time.Microsecond)
	err := d.add(events.FactTurnAwaited, events.TurnAwaited{Model: model, Until: until, Wake: until.Add(-turnEarly), Worker: by.Worker, Epoch: by.Epoch}, false)
	return Decision{Facts: d.facts, State: d.state}, err
}

func (s *State) turnAwaited(seq int64, b events.TurnAwaited) {
	s.Retry = &Retry{Timer: fmt.Sprintf("turn-%d", seq), At: b.Wake, Turn: &b}
}

func waitingForTurn(b events.TurnAwaited) string {
	return fmt.Sprintf("a turn of model %s until %s", b.Model, b.Until.UTC().Format(time.RFC3339))
}

// settleTurn tells the model's limit what an answer really used. What is lost
// here stays counted as it was booked.
func (s *Service) settleTurn(ctx context.Context, st *State, plan *Plan, r Request, used events.Usage) {
	t, limited := plan.turnOf(st, r)
	if !limited || t.Tokens == 0 {
		return
	}
	if err := s.store.SettleTurn(ctx, t, tokensTime(plan.answering(st).Limits, used.Total())-t.Tokens); err != nil {
		s.logFor(st.RunID).Warn("turn not settled", "err", err)
	}
}
