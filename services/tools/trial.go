package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Trial is one call of a tool that a person makes, without a run.
type Trial struct {
	Namespace string
	Tool      string
	Args      json.RawMessage
	// Act says that the person wants it although the tool acts on the outside
	// world or asks for approval.
	Act bool
	By  string
}

// Tried is what a trial came to. A read has a verdict and is kept nowhere; a
// tool that acts goes through the ledger and has an effect.
type Tried struct {
	Digest   events.Digest
	Effect   string // the tool's class
	Status   string // events.Call…, or TriedAgain
	Result   json.RawMessage
	Error    *events.Problem
	Receipt  *Receipt // of a read
	CallID   events.CallID
	EffectID string
	Took     time.Duration
}

// TriedAgain is the status of a trial whose act surely did not happen yet and is
// repeated by itself.
const TriedAgain = "again"

// ErrActs says that a trial was not made because the tool acts or asks first.
var ErrActs = errors.New("the tool acts on the outside world")

// Try calls the tool as it is defined now. ErrNoDefinition when there is none,
// ErrInvalid for arguments that its schema refuses, ErrActs when it changes
// something, or asks for approval, and the trial does not say Act.
//
// A gated tool that acts is never tried: what a person must agree to is agreed
// to by approvals, where the yes is bound to tool and arguments.
func (s *Service) Try(ctx context.Context, t Trial) (Tried, error) {
	if s.listing == nil {
		return Tried{}, fmt.Errorf("%w: this process does not know tools by name", ErrNoDefinition)
	}
	tool, digest, err := s.listing.CurrentTool(ctx, t.Namespace, t.Tool)
	if err != nil {
		return Tried{}, err
	}
	args, err := events.Canonical(t.Args)
	if err != nil {
		return Tried{}, fmt.Errorf("%w: args: %w", ErrInvalid, err)
	}
	if bad := tool.Input.Validate(args); len(bad) > 0 {
		return Tried{}, fmt.Errorf("%w: args%s: %s", ErrInvalid, bad[0].Path, bad[0].Message)
	}
	run := events.NewRunID()
	call := events.CallTool{
		RunID: run, CallID: events.NewCallID(run, 1, 0), Namespace: t.Namespace, Tool: t.Tool, ToolDigest: digest,
		Args: args, ArgsDigest: events.DigestOf(args), Key: fmt.Sprintf("%s/1/0/%s", run, t.Tool),
	}
	j := &job{c: call, tool: tool, plan: MakePlan(tool, call), log: s.log.With(telemetry.KeyTool, t.Tool)}
	out := Tried{Digest: digest, Effect: tool.Effect}
	switch {
	case tool.AnsweredByRunner() != nil:
		return Tried{}, fmt.Errorf("%w: %s works on the state of a run, so only a run can call it", ErrInvalid, t.Tool)
	case s.kindOf(tool) == nil:
		return Tried{}, fmt.Errorf("%w: no tool kind of this process runs %s", ErrInvalid, t.Tool)
	case !t.Act && (j.plan.Class != ClassRead || j.plan.Gated):
		return Tried{}, ErrActs
	case j.plan.Class != ClassRead && j.plan.Gated:
		return Tried{}, fmt.Errorf("%w: with these arguments it needs a person's yes, which only a run can ask for", ErrInvalid)
	}
	s.log.InfoContext(ctx, "tool tried by a person", telemetry.KeyTool, t.Tool, telemetry.KeyCallID, call.CallID, "by", t.By, "effect", tool.Effect)
	began := s.now()
	if j.plan.Class == ClassRead {
		j.discard = true
		release, _, err := s.turn(ctx, j, "")
		if wait, again := fault.Wait(err); again && wait > 0 {
			out.Status, out.Error = TriedAgain, problem(CodeUnavailable, "nothing was sent: %v, for %s", err, wait.Round(time.Millisecond))
			return out, nil
		}
		if err != nil {
			return Tried{}, err
		}
		o := s.act(ctx, j, "")
		release()
		out.Status, out.Result, out.Error, out.Receipt = statusOfRead(o.Verdict), o.Result, o.Error, &o.Receipt
		out.Took = s.now().Sub(began)
		return out, nil
	}
	out.CallID = call.CallID
	body, err := events.Marshal(call)
	if err != nil {
		return Tried{}, err
	}
	id := "call:" + string(call.CallID)
	err = s.silent().HandleCall(ctx, events.Received{Message: events.Message{
		Subject: events.ToolSubject(j.plan.Pool, call.CallID), MsgID: id, ID: id, Source: "/services/tools", Type: events.TypeCallTool,
		Namespace: t.Namespace, Data: body,
	}})
	out.Took = s.now().Sub(began)
	if wait, again := fault.Wait(err); again && wait > 0 {
		out.Status = TriedAgain
		out.Error = problem(CodeUnavailable, "%v", err)
		return out, nil
	}
	if err != nil {
		return Tried{}, err
	}
	calls, err := s.store.Answered(ctx, call.CallID)
	if err != nil {
		return Tried{}, fmt.Errorf("read answer of call %s: %w", call.CallID, err)
	}
	for _, c := range calls {
		if c.ID == call.CallID {
			out.Status, out.Result, out.Error, out.EffectID = c.Status, c.Result, c.Error, c.EffectID
			return out, nil
		}
	}
	out.Status = TriedAgain // the wait is a row
	return out, nil
}

func statusOfRead(v Verdict) string {
	if v == Happened {
		return events.CallSucceeded
	}
	return events.CallFailed
}

// silent is the service for a call that no run waits for.
func (s *Service) silent() *Service {
	q := *s
	q.bus = nobody{}
	return &q
}

type nobody struct{}

func (nobody) Publish(context.Context, events.Message) error { return nil }

// Listed returns the tools of a namespace as they are defined now.
func (s *Service) Listed(ctx context.Context, namespace string) ([]ListedTool, error) {
	if s.listing == nil {
		return nil, nil
	}
	return s.listing.CurrentTools(ctx, namespace)
}

// KindOf names the kind of a tool; empty when this release runs none such.
func (s *Service) KindOf(t *spec.Tool) string {
	if k := s.kindOf(t); k != nil {
		return k.Name()
	}
	return ""
}

// OfferedByMCP lists what the MCP server of that name offers now.
func (s *Service) OfferedByMCP(ctx context.Context, namespace, server string) (*spec.MCPServer, []Offer, error) {
	if s.offers == nil {
		return nil, nil, fmt.Errorf("%w: this process speaks to no MCP servers", ErrNoDefinition)
	}
	return s.offers.MCP(ctx, namespace, server)
}

// OfferedByNATS lists the endpoints of NATS micro services that are tools.
func (s *Service) OfferedByNATS(ctx context.Context) ([]Offer, error) {
	if s.offers == nil {
		return nil, nil
	}
	return s.offers.NATS(ctx)
}
