package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

func registerTools(d *door.Door, a api) {
	tags := []string{"tools"}
	door.Register(d, huma.Operation{
		Method: http.MethodGet, Path: "/v1/tools", Tags: tags, OperationID: "list-tools",
		Summary: "List the tools that are defined now, with what decides about their calls",
	}, authn.Viewer, a.tools)
	door.Register(d, huma.Operation{
		Method: http.MethodPost, Path: "/v1/tools/{name}/test", Tags: tags, OperationID: "test-tool",
		Summary: "Call a tool without a run",
		Description: "A tool that reads is called and its answer is kept nowhere. One that acts, or asks for approval, wants the role admin " +
			"and act: true; what acts goes through the ledger. A call that a person must agree to is refused: only a run can ask.",
		Errors: []int{http.StatusForbidden, http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity},
	}, authn.Operator, a.test)
	door.Register(d, huma.Operation{
		Method: http.MethodPost, Path: "/v1/tools/offers/mcp/{server}", Tags: tags, OperationID: "list-mcp-tools",
		Summary:     "Ask an MCP server what tools it has, to import them",
		Description: "Connects to the server of that name, which may start a program. Everything in the answer is the server's word.",
		Errors:      []int{http.StatusNotFound, http.StatusBadGateway},
	}, authn.Admin, a.mcpOffers)
	door.Register(d, huma.Operation{
		Method: http.MethodPost, Path: "/v1/tools/offers/nats", Tags: tags, OperationID: "list-nats-tools",
		Summary: "Ask NATS micro services which of their endpoints are tools, to import them",
		Errors:  []int{http.StatusBadGateway},
	}, authn.Admin, a.natsOffers)
}

// Tool is a tool as it is defined now.
type Tool struct {
	Name        string        `json:"name"`
	Kind        string        `json:"kind,omitempty" doc:"empty: this release does not run it"`
	Description string        `json:"description,omitempty"`
	Effect      string        `json:"effect" enum:"read,idempotent,write"`
	InDoubt     string        `json:"in_doubt" doc:"what follows when nobody knows whether a call happened"`
	Approval    string        `json:"approval" doc:"never, always, or when <condition>"`
	Pool        string        `json:"pool"`
	Digest      events.Digest `json:"digest"`
	Damaged     bool          `json:"damaged,omitempty" doc:"its stored definition cannot be read"`
}

type toolsOutput struct {
	Body struct {
		Items []Tool `json:"items"`
	}
}

func (a api) tools(ctx context.Context, _ *struct{}) (*toolsOutput, error) {
	who, _ := authn.FromContext(ctx)
	listed, err := a.service.Listed(ctx, who.Namespace)
	if err != nil {
		return nil, err
	}
	out := &toolsOutput{}
	out.Body.Items = make([]Tool, 0, len(listed))
	for _, l := range listed {
		t := Tool{Name: l.Name, Digest: l.Digest, Damaged: l.Tool == nil}
		if l.Tool != nil {
			t.Kind, t.Description, t.Effect = a.service.KindOf(l.Tool), l.Tool.Description, l.Tool.Effect
			t.InDoubt, t.Approval, t.Pool = l.Tool.InDoubt.String(), l.Tool.Approval.String(), l.Tool.Pool
			if l.Tool.Signal != nil {
				t.Kind = "signal" // the runner answers it
			}
		}
		out.Body.Items = append(out.Body.Items, t)
	}
	return out, nil
}

type testInput struct {
	Name string `path:"name" maxLength:"120"`
	Body struct {
		Args json.RawMessage `json:"args,omitempty" doc:"an object; default {}"`
		Act  bool            `json:"act,omitempty" doc:"call it although it acts or asks for approval"`
	}
}

// Tested is what a test came to.
type Tested struct {
	Effect   string          `json:"effect" enum:"read,idempotent,write"`
	Digest   events.Digest   `json:"digest"`
	Status   string          `json:"status" doc:"succeeded, failed, unknown, ...; again: it surely did not happen yet and is repeated by itself"`
	Result   json.RawMessage `json:"result,omitempty"`
	Error    *EffectError    `json:"error,omitempty"`
	TookMs   int64           `json:"took_ms"`
	Receipt  *tools.Receipt  `json:"receipt,omitempty" doc:"of a tool that reads"`
	CallID   string          `json:"call_id,omitempty"`
	EffectID string          `json:"effect_id,omitempty" doc:"of a tool that acts: its row in the ledger"`
}

type testOutput struct{ Body Tested }

// codeToolActs is the code of the 409 answer to a test that does not say act.
const codeToolActs = "tool_acts"

func (a api) test(ctx context.Context, in *testInput) (*testOutput, error) {
	who, _ := authn.FromContext(ctx)
	if len(in.Body.Args) == 0 {
		in.Body.Args = json.RawMessage("{}")
	}
	if in.Body.Act && !who.Role.Allows(authn.Admin) {
		return nil, door.Error(http.StatusForbidden, door.CodeForbidden, "calling a tool that acts or asks for approval needs the role admin")
	}
	got, err := a.service.Try(ctx, tools.Trial{Namespace: who.Namespace, Tool: in.Name, Args: in.Body.Args, Act: in.Body.Act, By: who.Name})
	switch {
	case errors.Is(err, tools.ErrNoDefinition):
		return nil, door.NotFound("there is no tool %.130q here; list them with GET /v1/tools", in.Name)
	case errors.Is(err, tools.ErrInvalid):
		return nil, door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, err.Error())
	case errors.Is(err, tools.ErrActs):
		return nil, door.Error(http.StatusConflict, codeToolActs,
			"the tool acts on the outside world, or asks for approval; nothing was done. To call it all the same, say act: true")
	case err != nil:
		return nil, err
	}
	out := &testOutput{Body: Tested{Effect: got.Effect, Digest: got.Digest, Status: got.Status, Result: got.Result, TookMs: got.Took.Milliseconds(),
		Receipt: got.Receipt, CallID: string(got.CallID), EffectID: got.EffectID}}
	if got.Error != nil {
		out.Body.Error = &EffectError{Code: got.Error.Code, Message: got.Error.Message}
	}
	return out, nil
}

// Offer is something that a Tool document can be made of.
type Offer struct {
	Name         string          `json:"name"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"input_schema,omitempty"`
	OutputSchema json.RawMessage `json:"output_schema,omitempty" doc:"what an MCP server declares of its results"`
	Digest       events.Digest   `json:"digest,omitempty" doc:"of name, description and input schema; an MCP tool's document pins it"`
	Subject      string          `json:"subject,omitempty"`
	Service      string          `json:"service,omitempty"`
	Hints        map[string]bool `json:"hints,omitempty" doc:"what the server says about its effect; nothing follows from it"`
	Denied       bool            `json:"denied,omitempty" doc:"the server's definition does not allow it"`
}

type mcpOffersInput struct {
	Server string `path:"server" maxLength:"120"`
}

type mcpOffersOutput struct {
	Body struct {
		Server string          `json:"server"`
		Pool   string          `json:"pool"`
		Policy json.RawMessage `json:"defaults" doc:"of the server's definition: effect, inDoubt, approval and timeout of its tools"`
		Items  []Offer         `json:"items"`
	}
}

func (a api) mcpOffers(ctx context.Context, in *mcpOffersInput) (*mcpOffersOutput, error) {
	who, _ := authn.FromContext(ctx)
	def, offers, err := a.service.OfferedByMCP(ctx, who.Namespace, in.Server)
	if errors.Is(err, tools.ErrNoDefinition) {
		return nil, door.NotFound("there is no MCP server %.130q here; apply its definition first", in.Server)
	}
	if err != nil {
		return nil, offersProblem(err)
	}
	out := &mcpOffersOutput{}
	out.Body.Server, out.Body.Pool, out.Body.Items = in.Server, def.Pool, showOffers(offers)
	out.Body.Policy, err = json.Marshal(def.Defaults)
	return out, err
}

type natsOffersOutput struct {
	Body struct {
		Items []Offer `json:"items"`
	}
}

func (a api) natsOffers(ctx context.Context, _ *struct{}) (*natsOffersOutput, error) {
	offers, err := a.service.OfferedByNATS(ctx)
	if err != nil {
		return nil, offersProblem(err)
	}
	out := &natsOffersOutput{}
	out.Body.Items = showOffers(offers)
	return out, nil
}

func showOffers(offers []tools.Offer) []Offer {
	out := make([]Offer, 0, len(offers))
	for _, o := range offers {
		out = append(out, Offer(o))
	}
	return out
}

// offersProblem tells what stands in the way at the other program.
func offersProblem(err error) error {
	if u, ok := errors.AsType[*tools.Unready](err); ok {
		return door.Error(http.StatusBadGateway, u.Code, u.Error())
	}
	return err
}
