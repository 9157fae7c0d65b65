package tools

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// Names of the places where tests make a worker die. Their key is
// "<tool> <call id> <args>".
const (
	failBegin    = "tools.begin"    // message taken, nothing committed
	failIntent   = "tools.intent"   // intent committed, nothing sent
	failActed    = "tools.acted"    // the other side answered, nothing recorded
	failRecorded = "tools.recorded" // outcome committed, nothing published
)

func (j *job) failKey() string { return fmt.Sprintf("%s %s %s", j.c.Tool, j.c.CallID, j.c.Args) }

// intent is a claim that this handler holds.
type intent struct {
	Begin
	live   bool // From is an open intent
	waited bool // for a callback that did not come
	claim  Claim
	sent   time.Time // when the intent was sent to the database
	until  time.Time // of this process's clock: no act starts later
}

// begin commits an intent, acts, commits the outcome and tells the runs.
func (s *Service) begin(ctx context.Context, j *job, d Decision) (err error) {
	in := &intent{Begin: Begin{
		Call: j.call(), Read: j.plan.Class == ClassRead, Worker: s.worker, Lease: EffectLease,
		From: d.From, Takeover: d.Takeover, Doubted: d.Doubted, Gated: j.plan.Gated, Bind: j.plan.Bind,
	}}
	in.live, in.waited = d.Live, d.Waited
	if !in.Read {
		in.EffectID = j.effectID()
	}
	if err := failpoint.Hit(failBegin, j.failKey()); err != nil {
		return err
	}
	opened := ""
	if d.From.Epoch > 0 {
		opened = in.EffectID
	}
	release, ok, err := s.turn(ctx, j, opened)
	if err != nil || !ok {
		return err
	}
	defer release()
	acted := false
	defer func() {
		if in.AttemptID == "" {
			return
		}
		if !acted && err != nil && !errors.Is(err, fault.ErrLost) {
			s.attempts.idle(in.AttemptID) // committed, nothing sent: may be renewed
		} else {
			s.attempts.forget(in.AttemptID)
		}
	}()
	if intentFirst {
		if err := s.commitIntent(ctx, j, in); err != nil {
			return s.gated(ctx, j, in, err)
		}
		if err := failpoint.Hit(failIntent, j.failKey()); err != nil {
			return err
		}
		if err := s.ensure(ctx, j, in); err != nil {
			return s.gated(ctx, j, in, err)
		}
	} else {
		in.claim = Claim{Epoch: d.From.Epoch + 1, Attempts: d.From.Attempts + 1}
	}
	acted = true
	started := s.now()
	out := s.act(ctx, j, in.EffectID)
	release()
	out.Receipt.StartedAt, out.Receipt.DurationMs = started.UTC(), s.now().Sub(started).Milliseconds()
	if err := failpoint.Hit(failActed, j.failKey()); err != nil {
		return err
	}
	if !intentFirst {
		if err := s.commitIntent(ctx, j, in); err != nil {
			return s.gated(ctx, j, in, err)
		}
	}
	return s.finish(ctx, j, in, out)
}

// gateError says that a gated call's yes does not hold.
type gateError struct{ gate Gate }

func (e *gateError) Error() string { return "approval is " + string(e.gate) }

// commitIntent commits the intent under a new attempt id. Until it succeeds, in
// names the attempt before.
func (s *Service) commitIntent(ctx context.Context, j *job, in *intent) error {
	b := in.Begin
	b.AttemptID, b.Reply = newAttemptID(), s.ticket(j, in)
	s.attempts.start(b.AttemptID)
	sent := s.now()
	began, err := s.store.Begin(ctx, b)
	if err != nil {
		s.attempts.idle(b.AttemptID) // it may be committed, it has not acted
		return fmt.Errorf("commit intent of call %s: %w", j.c.CallID, err)
	}
	if began.Gate != GateOpen || began.Lost || began.Held != "" {
		s.attempts.forget(b.AttemptID)
	}
	switch {
	case began.Gate != GateOpen:
		return &gateError{began.Gate}
	case began.Held != "":
		return &heldError{began.Held}
	case began.Lost && in.Takeover:
		return fault.RetryAfter(otherHoldsNak, fmt.Errorf("call %s: its owner cannot be judged yet", j.c.CallID))
	case began.Lost:
		return errChanged
	}
	s.attempts.forget(in.AttemptID)
	in.AttemptID = b.AttemptID
	in.claim = Claim{
		Epoch: began.Epoch, AttemptID: b.AttemptID, Worker: s.worker,
		Attempts: b.From.Attempts + 1, Doubted: b.Doubted,
	}
	in.sent = sent.Add(began.Waited)
	in.until = in.sent.Add(b.Lease)
	return nil
}

// ensure returns when this handler may act: its beat is fresh, the claim is its
// own, the lease runs and no stop has come since the intent. A lease that ran out here is renewed, because this
// process knows that it has not acted.
func (s *Service) ensure(ctx context.Context, j *job, in *intent) error {
	for {
		if !s.heart.Fresh() {
			if err := s.heart.WaitFresh(ctx); err != nil {
				return fmt.Errorf("wait for a fresh heartbeat: %w", err)
			}
			ok, err := s.store.Holds(ctx, Attempt{CallID: j.c.CallID, EffectID: in.EffectID, ID: in.AttemptID, Epoch: in.claim.Epoch})
			if err != nil {
				return fmt.Errorf("read claim of call %s: %w", j.c.CallID, err)
			}
			if !ok {
				return fault.ErrLost
			}
		}
		stopped, err := s.stopped(ctx, j, in)
		if err != nil {
			return err
		}
		if !stopped && s.now().Before(in.until) {
			return nil
		}
		j.log.InfoContext(ctx, "lease ran out before the act or a stop came, intent renewed", telemetry.KeyEpoch, in.claim.Epoch)
		in.From, in.Takeover, in.live = in.claim, false, true
		in.From.Attempts-- // nothing was tried
		s.metrics.renewed(ctx)
		if err := s.commitIntent(ctx, j, in); err != nil {
			return err
		}
	}
}

// gated answers a call whose yes does not hold, and leaves one alone that a stop
// holds: its row waits. Other errors pass.
func (s *Service) gated(ctx context.Context, j *job, in *intent, err error) error {
	if h, ok := errors.AsType[*heldError](err); ok {
		j.log.InfoContext(ctx, "write held", "stop", h.stop, "effect_id", in.EffectID)
		return nil
	}
	g, ok := errors.AsType[*gateError](err)
	if !ok {
		return err
	}
	d := DecideShut(g.gate, j.plan, Decision{Do: DoBegin, From: in.From, Live: in.live, Takeover: in.Takeover, Doubted: in.Doubted, Waited: in.waited})
	switch d.Do {
	case DoDoubt:
		return s.doubt(ctx, j, d)
	case DoAnswer:
		return s.answer(ctx, j, d.Answer)
	}
	calls, ok, err := s.store.Close(ctx, Close{Call: j.call(), EffectID: in.EffectID, From: in.From, Answer: d.Answer})
	if err != nil {
		return fmt.Errorf("close effect of call %s: %w", j.c.CallID, err)
	}
	if !ok {
		return errChanged
	}
	return s.announce(ctx, calls, "")
}

// act makes one attempt. A panic of a kind is an outcome that nobody knows.
func (s *Service) act(ctx context.Context, j *job, effectID string) (out Outcome) {
	kind := s.kindOf(j.tool)
	defer func() {
		if p := recover(); p != nil {
			j.log.ErrorContext(ctx, "tool kind panicked", "kind", kind.Name(), telemetry.KeyErr, p, "stack", string(debug.Stack()))
			out = Outcome{Verdict: Ambiguous, Error: problem("panic", "the tool broke off; it may have happened")}
		}
		out.Receipt.Kind, out.Receipt.Verdict = kind.Name(), out.Verdict.String()
		if out.Error != nil {
			out.Receipt.Code, out.Receipt.Error = out.Error.Code, out.Error.Message
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, j.plan.Timeout)
	defer cancel()
	out = kind.Act(ctx, Request{
		Tool: j.tool, Class: j.plan.Class, Policy: j.plan.Policy, CallID: j.c.CallID, Args: j.c.Args, Key: j.plan.Key,
		Namespace: j.c.Namespace, RunID: j.c.RunID, Callback: j.callback, ReplyURL: j.replyURL, Look: j.look, Discard: j.discard || j.look,
	})
	if j.look { // its conditions judge it
		return out
	}
	return checkOutput(j.tool.OutputSchema, j.plan.Class, out)
}

// recordGrace is how long an outcome may still be recorded after the process
// was told to stop.
const recordGrace = 3 * time.Second

// finish commits the outcome. It must not be lost because the handler's context
// ends, so it goes on for a while.
func (s *Service) finish(ctx context.Context, j *job, in *intent, out Outcome) error {
	now := s.clock(j)
	con := Conclude(out.Verdict, j.plan, in.claim, out.Error, out.RetryAfter, now)
	if out.Unasked && out.Verdict == NotSent {
		con = Postpone(j.plan, in.claim, out.Error, out.RetryAfter, now)
	}
	if con.State == EffectIntent && !con.Awaits {
		con.Wait = j.plan.retry().fit(con.Wait+s.jitter(con.Wait/5), now)
	}
	if con.State == EffectUnknown && con.Error == nil {
		con.Error = problem(CodeUnknownOutcome, "it may have happened")
	}
	f := Finish{
		Attempt: Attempt{CallID: j.c.CallID, EffectID: in.EffectID, ID: in.AttemptID, Epoch: in.claim.Epoch},
		Worker:  s.worker, Conclusion: con, Receipt: out.Receipt, Acted: out.Verdict != NotSent,
	}
	if con.State == EffectSucceeded {
		f.Result, f.Artifacts = out.Result, out.Artifacts
	}
	record, cancel := outliving(ctx, recordGrace)
	defer cancel()
	calls, mine, err := s.store.Finish(record, f)
	if errors.Is(err, ErrUnstorable) {
		j.log.ErrorContext(ctx, "outcome could not be stored as it is", telemetry.KeyErr, err)
		f.Result, f.Artifacts = nil, nil
		if con.State == EffectSucceeded {
			f.Result = []byte(`{"note":"it happened, but its result could not be stored"}`)
		}
		f.Receipt.Error, f.Conclusion.Error = CodeUnstorable, unstorable(con.Error)
		calls, mine, err = s.store.Finish(record, f)
	}
	if err != nil {
		return fmt.Errorf("record outcome of call %s: %w", j.c.CallID, err)
	}
	if !mine && con.Unasked {
		return fault.ErrLost
	}
	if !mine {
		j.log.ErrorContext(ctx, "late outcome kept as a receipt", telemetry.KeyEpoch, in.claim.Epoch, "verdict", out.Verdict.String())
		return fault.ErrLost
	}
	s.metrics.recorded(record, f.Receipt, f.Conclusion)
	j.log.InfoContext(ctx, "attempt recorded", "verdict", out.Verdict.String(), "state", con.State,
		telemetry.KeyAttempt, in.claim.Attempts, telemetry.KeyEpoch, in.claim.Epoch)
	if err := failpoint.Hit(failRecorded, j.failKey()); err != nil {
		return err
	}
	if con.State == EffectIntent && !con.Awaits && !con.Unasked && con.Wait <= longestNak {
		return fault.RetryAfter(con.Wait, fmt.Errorf("call %s: attempt %d: %s", j.c.CallID, in.claim.Attempts, out.Verdict))
	}
	return s.announce(record, calls, "")
}

func unstorable(p *events.Problem) *events.Problem {
	if p == nil {
		return nil
	}
	return problem(CodeUnstorable, "the other side's error could not be stored")
}

// outliving returns a context that ends grace after ctx does.
func outliving(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(grace):
		case <-out.Done():
		}
		cancel()
	})
	return out, func() { stop(); cancel() }
}
