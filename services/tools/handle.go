package tools

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// errChanged says that the state has changed since it was read: read it again.
var errChanged = errors.New("state changed")

// reReads bounds how often one delivery looks again before it is handed back.
const reReads = 8

// job is one CallTool message on its way.
type job struct {
	m    events.Received
	c    events.CallTool
	tool *spec.Tool
	plan Plan
	log  *slog.Logger

	look     bool           // only looks: see Request.Look
	discard  bool           // nothing of the answer is kept
	replyURL string         // of the attempt, when its result may be posted
	callback *spec.Callback // of the run's definition, for the call that posts its end
	seen     time.Time      // the database's clock at seenAt, on ours
	seenAt   time.Time
}

// clock is the database's clock, as far as it is known here.
func (s *Service) clock(j *job) time.Time { return j.seen.Add(s.now().Sub(j.seenAt)) }

// HandleCall takes one CallTool message. Repeats are answered from the rows.
func (s *Service) HandleCall(ctx context.Context, m events.Received) error {
	if m.Type != events.TypeCallTool {
		return fault.Terminal("unknown_type", fmt.Errorf("a tool pool cannot handle messages of type %q", m.Type))
	}
	j := &job{m: m}
	if err := events.Decode(m.Message, &j.c); err != nil {
		return fault.Terminal("decode", err)
	}
	if err := checkCall(j.c); err != nil {
		return fault.Terminal("invalid", fmt.Errorf("%s: %w", m.ID, err))
	}
	j.log = s.log.With(telemetry.KeyRunID, j.c.RunID, telemetry.KeyCallID, j.c.CallID, telemetry.KeyTool, j.c.Tool)
	if err := s.plan(ctx, j); err != nil {
		return err
	}
	for range reReads {
		st, err := s.store.Load(ctx, j.c, j.plan.Key, s.worker)
		if err != nil {
			return fmt.Errorf("load call %s: %w", j.c.CallID, err)
		}
		if st.RunDeleted {
			j.log.InfoContext(ctx, "call of a deleted run dropped")
			return nil
		}
		j.seen, j.seenAt = st.Now, s.now()
		if err := s.gate(ctx, j, st); err != nil {
			return err
		}
		err = s.perform(ctx, j, Decide(st, j.plan, j.c, s.worker, s.attempts.own))
		if !errors.Is(err, errChanged) {
			return err
		}
	}
	return fault.RetryAfter(otherHoldsNak, fmt.Errorf("call %s: its effect keeps changing", j.c.CallID))
}

// plan finds the tool and what it says about the call. A tool that does not
// exist is an answer, not an error: the run must go on.
func (s *Service) plan(ctx context.Context, j *job) error {
	if j.c.Tool == events.CallbackTool {
		return s.planCallback(ctx, j)
	}
	tool, err := s.tools.Tool(ctx, j.c.Namespace, j.c.ToolDigest)
	switch {
	case errors.Is(err, ErrNoDefinition):
		j.plan = Plan{Class: ClassWrite, Key: j.c.Key, Pool: defaultPool, Policy: DoubtAsk,
			Problem: problem(CodeUnknownTool, "no tool %s with digest %s is stored", j.c.Tool, j.c.ToolDigest)}
		return nil
	case err != nil:
		return fmt.Errorf("find tool %s of call %s: %w", j.c.Tool, j.c.CallID, err)
	}
	j.tool, j.plan = tool, MakePlan(tool, j.c)
	if j.plan.Problem == nil && s.kindOf(tool) == nil {
		j.plan.Problem = problem(CodeNoKind, "no tool kind of this release runs %s", j.c.Tool)
	}
	return s.reachable(j)
}

func (s *Service) kindOf(t *spec.Tool) Kind {
	for _, k := range s.kinds {
		if k.Runs(t) {
			return k
		}
	}
	return nil
}

// call is the row of the job's call before anything is known about it.
func (j *job) call() Call {
	return Call{
		ID: j.c.CallID, RunID: j.c.RunID, Namespace: j.c.Namespace, Tool: j.c.Tool, ToolDigest: j.c.ToolDigest,
		Pool: j.plan.Pool, Args: j.c.Args, ArgsDigest: j.c.ArgsDigest, MintedKey: j.c.Key, Key: j.plan.Key,
		Approval: j.c.Approval, Rule: j.c.Rule, TraceParent: j.m.TraceParent, Status: CallOpen,
	}
}

func (j *job) effectID() string { return EffectID(j.c.Namespace, j.c.Tool, j.plan.Key) }

func (s *Service) perform(ctx context.Context, j *job, d Decision) error {
	switch d.Do {
	case DoReuse:
		return fault.Terminal("call_reused", fmt.Errorf("call id %s was used for another call", j.c.CallID))
	case DoReplay:
		return s.replay(ctx, j.c.CallID, j.m)
	case DoRest:
		return nil
	case DoWait:
		return fault.RetryAfter(d.Wait, fmt.Errorf("call %s: not yet", j.c.CallID))
	case DoAnswer:
		return s.answer(ctx, j, d.Answer)
	case DoAttach:
		ok, err := s.store.Attach(ctx, j.call(), j.effectID())
		if err != nil {
			return fmt.Errorf("attach call %s: %w", j.c.CallID, err)
		}
		if !ok {
			return errChanged
		}
		return nil
	case DoDoubt:
		return s.doubt(ctx, j, d)
	case DoProbe:
		return s.probe(ctx, j, *d.Doubt)
	case DoBegin:
		return s.begin(ctx, j, d)
	}
	return fmt.Errorf("call %s: decision %q is not known", j.c.CallID, d.Do)
}

// replay sends the answers again that the call's rows hold.
func (s *Service) replay(ctx context.Context, id events.CallID, m events.Received) error {
	calls, err := s.store.Answered(ctx, id)
	if err != nil {
		return fmt.Errorf("read answer of call %s: %w", id, err)
	}
	return s.announce(ctx, calls, replaySuffix(m))
}

func replaySuffix(m events.Received) string { return fmt.Sprintf("r%d", m.StreamSeq) }

func (s *Service) answer(ctx context.Context, j *job, a Answer) error {
	call, ok, err := s.store.Answer(ctx, j.call(), a)
	if err != nil {
		return fmt.Errorf("answer call %s: %w", j.c.CallID, err)
	}
	if !ok {
		return errChanged
	}
	j.log.InfoContext(ctx, "call answered without acting", "status", call.Status, telemetry.KeyEpoch, call.Epoch)
	return s.announce(ctx, []Call{call}, "")
}

func (s *Service) doubt(ctx context.Context, j *job, d Decision) error {
	why := problem(CodeUnknownOutcome, "the worker was lost between the request and its record; it may have happened")
	if d.Waited {
		why = problem(CodeUnknownOutcome, "the other side accepted it and has not said within %s what became of it; it may have happened", j.plan.ReplyWithin)
	}
	calls, ok, err := s.store.Doubt(ctx, Doubt{
		Call: j.call(), EffectID: j.effectID(), From: d.From, Takeover: d.Takeover, Worker: s.worker, InDoubt: d.InDoubt, LookIn: j.plan.firstLook(),
		Error: why,
	})
	if err != nil {
		return fmt.Errorf("mark effect of call %s unknown: %w", j.c.CallID, err)
	}
	if !ok {
		return fault.RetryAfter(otherHoldsNak, fmt.Errorf("call %s: its owner cannot be judged yet", j.c.CallID))
	}
	s.metrics.doubted(ctx, d.InDoubt)
	j.log.WarnContext(ctx, "effect in doubt", "awaited", d.Waited, "owner", d.From.Worker, telemetry.KeyEpoch, d.From.Epoch, "policy", d.InDoubt)
	return s.announce(ctx, calls, "")
}
