package kind

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/tools"
)

// Keys of what goes along with a call in its _meta.
const (
	MetaIdempotencyKey = "run.holdfast/idempotencyKey" // not with reads
	MetaCallID         = "run.holdfast/callId"
	MetaRunID          = "run.holdfast/runId"
	metaTraceParent    = "traceparent"
)

// Codes of refusals.
const (
	codeToolChanged = "tool_changed"
	codeToolDenied  = "tool_denied"
	codeToolError   = "tool_error"
	codeNeedsInput  = "input_required"
	codeTooLarge    = "answer_too_large"
)

// MCP runs a tool of an MCP server.
type MCP struct{ servers *MCPServers }

var _ tools.Kind = (*MCP)(nil)

// Name is "mcp".
func (k *MCP) Name() string { return "mcp" }

// Runs reports whether the definition has an mcp part.
func (k *MCP) Runs(t *spec.Tool) bool { return t.MCP != nil }

// Act compares the server's present tool with the pinned one and calls it.
func (k *MCP) Act(ctx context.Context, r tools.Request) tools.Outcome {
	out, broken := k.act(ctx, r)
	if broken && ctx.Err() == nil { // the session broke before the call, so a new one may be tried
		out, _ = k.act(ctx, r)
	}
	return out
}

// act makes one attempt. broken says that its session had ended and nothing was
// sent on it.
func (k *MCP) act(ctx context.Context, r tools.Request) (out tools.Outcome, broken bool) {
	def := r.Tool.MCP
	s, done, err := k.servers.session(ctx, r.Namespace, def.Server)
	if err != nil {
		if isOpen(err) {
			return circuitOpen(err), false
		}
		u, _ := errors.AsType[*tools.Unready](err)
		return mcpProblem(tools.NotSent, u.Code, "nothing was sent: %v", err), false
	}
	defer done()
	scrub := s.scrub()
	if !s.def.Allows(def.Tool) {
		return mcpProblem(tools.Refused, codeToolDenied, "the definition of MCP server %s does not allow its tool %s", def.Server, def.Tool), false
	}
	now, declared, there, err := s.digestNow(ctx, def.Tool)
	switch {
	case err != nil && isOpen(err):
		return circuitOpen(err), false
	case err != nil && errors.Is(err, egress.ErrRefused):
		return mcpProblem(tools.Refused, "address_refused", "%s", scrub.text(err.Error())), false
	case err != nil:
		s.noteSilence(ctx)
		s.lost.CompareAndSwap(false, errors.Is(err, mcp.ErrConnectionClosed))
		return mcpProblem(tools.NotSent, codeUnreachable, "nothing was sent: MCP server %s did not list its tools: %s", def.Server, scrub.text(plainMCP(ctx, err).Error())), s.lost.Load()
	case !there:
		return mcpProblem(tools.Refused, codeToolChanged, "MCP server %s no longer has the tool %s; nothing was done. Import and apply again", def.Server, def.Tool), false
	case now != def.Schema:
		return mcpProblem(tools.Refused, codeToolChanged, "the tool %s of MCP server %s has changed since it was imported (it is %s, %s was applied); nothing was done. Import and apply again",
			def.Tool, def.Server, now, def.Schema), false
	}
	out = scrub.outcome(s.call(ctx, r, scrub))
	out.Declared = declared
	return out, false
}

func mcpProblem(v tools.Verdict, code, format string, args ...any) tools.Outcome {
	return tools.Outcome{Verdict: v, Error: &events.Problem{Code: code, Message: clean(fmt.Sprintf(format, args...), maxProblemBytes)}}
}

func isOpen(err error) bool {
	_, ok := errors.AsType[*egress.OpenError](err)
	return ok
}

func circuitOpen(err error) tools.Outcome {
	open, _ := errors.AsType[*egress.OpenError](err)
	out := mcpProblem(tools.NotSent, codeCircuitOpen, "%v", open)
	out.RetryAfter, out.Unasked = open.Wait, true
	return out
}

// noteSilence counts a request that was given up without an answer.
func (s *session) noteSilence(ctx context.Context) {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		s.silent.Add(1)
	}
}

func (s *session) call(ctx context.Context, r tools.Request, scrub scrubber) tools.Outcome {
	meta := mcp.Meta{MetaCallID: string(r.CallID)}
	if r.RunID != "" {
		meta[MetaRunID] = string(r.RunID)
	}
	if r.Class != tools.ClassRead {
		meta[MetaIdempotencyKey] = r.Key
	}
	if tp := telemetry.TraceParent(ctx); tp != "" {
		meta[metaTraceParent] = tp
	}
	ctx, x := withExchange(ctx)
	_, err := s.client.CallTool(ctx, &mcp.CallToolParams{Meta: meta, Name: r.Tool.MCP.Tool, Arguments: r.Args})
	sent, status, hint, raw := x.known()
	out := tools.Outcome{}
	switch {
	case raw != nil:
		s.silent.Store(0)
		s.answered.Add(1)
		out = answerOf(raw, scrub, outputLimit(r.Tool, maxResultBytes), &keeper{r: r})
	case err == nil:
		out = mcpProblem(tools.Ambiguous, "no_answer", "the server's answer could not be read; it may have happened")
	case x.tooLargeFor() > 0: // it answers, although the session does not survive it
		s.silent.Store(0)
		s.answered.Add(1)
		out = tooLargeAnswer(r.Class == tools.ClassRead, x.tooLargeFor())
	default:
		s.noteSilence(ctx)
		out = s.failure(ctx, err, sent, status, scrub)
		out.RetryAfter = max(out.RetryAfter, hint)
	}
	out.Receipt = tools.Receipt{
		Status: status, Bytes: int64(len(raw)),
		RequestDigest: string(events.DigestOf(fmt.Appendf(nil, "mcp %s %s\n%s", r.Tool.MCP.Server, r.Tool.MCP.Tool, r.Args))),
	}
	return out
}

// tooLargeAnswer is the outcome of a call whose answer is not read to its end. To ask
// for it again would bring it again, so a read is refused; what an act did, nobody knows.
func tooLargeAnswer(read bool, limit int64) tools.Outcome {
	if read {
		return mcpProblem(tools.Refused, codeTooLarge, "the MCP server's answer is larger than the %d MiB that are read of one; ask for less of it", limit>>20)
	}
	return mcpProblem(tools.Ambiguous, codeTooLarge, "the MCP server's answer is larger than the %d MiB that are read of one, so it is not known what it says; it may have happened", limit>>20)
}

// Codes of JSON-RPC errors that say that nothing was done.
// Source: JSON-RPC 2.0, section 5.1; -32042 is MCP's "a person must open a URL first".
var refusals = []int64{jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest, jsonrpc.CodeMethodNotFound, jsonrpc.CodeInvalidParams, -32042}

// rejectedByTransport is the SDK's own code for a request that HTTP did not
// answer with success; the status says more.
const rejectedByTransport = -32005

// failure is the outcome of a call without a result.
//
//	nothing left this machine      not sent
//	JSON-RPC error: bad request,
//	method or parameters           refused; the model reads why
//	HTTP 400, 404                  the session is gone: not sent
//	HTTP 425, 429                  not sent
//	other HTTP 4xx but 408 and 409 refused
//	everything else                nobody knows
func (s *session) failure(ctx context.Context, err error, sent bool, status int, scrub scrubber) tools.Outcome {
	text := scrub.clean(err.Error(), maxProblemBytes)
	e, ok := errors.AsType[*jsonrpc.Error](err)
	answered := ok && e.Code != rejectedByTransport
	refused := answered && slices.Contains(refusals, e.Code)
	gone := status == http.StatusNotFound || status == http.StatusBadRequest
	switch {
	case refused, answered && !gone:
		v := tools.Ambiguous
		if refused {
			v = tools.Refused
		}
		return mcpProblem(v, codeToolError, "the MCP server answered with error %d: %s", e.Code, scrub.text(e.Message))
	case isOpen(err):
		return circuitOpen(err)
	case errors.Is(err, egress.ErrRefused):
		return mcpProblem(tools.Refused, "address_refused", "%s", text)
	case !sent:
		return mcpProblem(tools.NotSent, codeUnreachable, "nothing was sent: %s", text)
	case gone:
		s.lost.Store(true)
		return mcpProblem(tools.NotSent, codeUnreachable, "the server does not know this session any more; it is connected to again")
	case status == http.StatusTooManyRequests || status == http.StatusTooEarly:
		return mcpProblem(tools.NotSent, fmt.Sprintf("http_%d", status), "the server wants fewer requests")
	case status >= 400 && status < 500 && status != http.StatusRequestTimeout && status != http.StatusConflict:
		return mcpProblem(tools.Refused, fmt.Sprintf("http_%d", status), "HTTP %d %s", status, http.StatusText(status))
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return mcpProblem(tools.Ambiguous, "timeout", "no answer in time; it may have happened")
	}
	return mcpProblem(tools.Ambiguous, "no_answer", "the connection broke before an answer; it may have happened: %s", text)
}

// Offers implements the listing of what can be imported.
type Offers struct {
	Servers *MCPServers
	Bus     tools.Requester
}

var _ tools.Offers = (*Offers)(nil)

// MCP implements tools.Offers.
func (o *Offers) MCP(ctx context.Context, namespace, server string) (*spec.MCPServer, []tools.Offer, error) {
	s, done, err := o.Servers.session(ctx, namespace, server)
	if err != nil {
		if u, ok := errors.AsType[*tools.Unready](err); ok && u.Code == codeServerMissing {
			return nil, nil, fmt.Errorf("%w: %w", tools.ErrNoDefinition, err)
		}
		return nil, nil, err
	}
	defer done()
	all, err := s.list(ctx)
	if err != nil {
		return nil, nil, unready(codeUnreachable, fmt.Errorf("MCP server %s did not list its tools: %s", server, s.scrub().text(plainMCP(ctx, err).Error())))
	}
	out := make([]tools.Offer, 0, len(all))
	for _, t := range all {
		offer := tools.Offer{
			Name: clean(t.Name, 200), Description: t.Description, InputSchema: t.InputSchema, Denied: !s.def.Allows(t.Name), Hints: map[string]bool{},
		}
		if declared, err := spec.NewSchema(t.OutputSchema); err == nil { // as in digestNow
			offer.OutputSchema = declared.JSON()
		}
		if offer.Digest, err = spec.SchemaDigest(t.Name, t.Description, t.InputSchema); err != nil {
			offer.InputSchema = nil // no document can be made of it
		}
		for name, v := range t.Annotations {
			var hint bool
			if len(name) <= 64 && json.Unmarshal(v, &hint) == nil {
				offer.Hints[name] = hint
			}
		}
		out = append(out, offer)
	}
	return s.def, out, nil
}
