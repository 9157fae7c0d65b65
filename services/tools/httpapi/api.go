// Package httpapi is the HTTP door of the ledger: list, show, resolve. Reading
// never changes anything, and who resolves is the verified principal of the
// request, whatever its body says.
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

// Register adds the routes of s to d.
func Register(d *door.Door, s *tools.Service) {
	a := api{service: s}
	registerOnce(d, a)
	registerTools(d, a)
	registerStops(d, a)
	registerArtifacts(d, a)
	registerReplies(d, a)
	tags := []string{"effects"}
	door.Register(d, huma.Operation{
		Method: http.MethodGet, Path: "/v1/effects", Tags: tags, OperationID: "list-effects",
		Summary: "List side effects, those in doubt first, then the newest",
	}, authn.Viewer, a.list)
	door.Register(d, huma.Operation{
		Method: http.MethodGet, Path: "/v1/effects/{id}", Tags: tags, OperationID: "get-effect",
		Summary: "Show one side effect with the receipts of its attempts",
		Errors:  []int{http.StatusNotFound},
	}, authn.Viewer, a.get)
	door.Register(d, huma.Operation{
		Method: http.MethodPost, Path: "/v1/effects/{id}/resolve", Tags: tags, OperationID: "resolve-effect",
		Summary: "Say what became of a side effect in doubt, once",
		Description: "happened: the call's result is what is given, or a note. not_happened: the call acts now, under the same key. " +
			"give_up: the model is told that it is unknown. The first verdict wins; a later one answers 409 and changes nothing. " +
			"200 means that the verdict is stored and reaches the run by itself.",
		Errors: []int{http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity, http.StatusServiceUnavailable},
	}, authn.Admin, a.resolve)
}

// codeNotInDoubt is the code of the 409 answer.
const codeNotInDoubt = "not_in_doubt"

type api struct{ service *tools.Service }

type listInput struct {
	door.PageInput
	State string `query:"state" enum:"intent,held,awaiting,succeeded,failed,unknown,expired"`
	Tool  string `query:"tool" maxLength:"120" doc:"name of a tool; program/<name> for what programs do"`
	Run   string `query:"run" doc:"id of a run: what it and all runs that it started changed; also effects that another run opened and one of these shares"`
}

type listOutput struct{ Body door.Page[Effect] }

func (a api) list(ctx context.Context, in *listInput) (*listOutput, error) {
	if in.Run != "" && !events.RunID(in.Run).Valid() {
		return nil, door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, "the id of the run is not valid").At("query.run", "not a run id")
	}
	who, _ := authn.FromContext(ctx)
	f := tools.Filter{Namespace: who.Namespace, State: in.State, Tool: in.Tool, RunID: events.RunID(in.Run), Limit: in.Limit + 1}
	var after tools.Position
	if ok, err := door.DecodeCursor(in.Cursor, &after); err != nil {
		return nil, err
	} else if ok {
		f.After = &after
	}
	found, err := a.service.Effects(ctx, f)
	if err != nil {
		return nil, err
	}
	return &listOutput{door.PageOf(found, in.Limit, func(e tools.Effect) any { return e.Position() }, show)}, nil
}

type getInput struct {
	ID string `path:"id"`
}

type effectOutput struct{ Body Effect }

func (a api) get(ctx context.Context, in *getInput) (*effectOutput, error) {
	who, _ := authn.FromContext(ctx)
	if !events.ValidToken(in.ID) {
		return nil, notFound(in.ID)
	}
	e, err := a.service.Effect(ctx, who.Namespace, in.ID)
	if err != nil {
		return nil, problem(in.ID, err)
	}
	return &effectOutput{Body: show(e)}, nil
}

type resolveInput struct {
	ID   string `path:"id"`
	Body struct {
		Verdict string          `json:"verdict" enum:"happened,not_happened,give_up"`
		Result  json.RawMessage `json:"result,omitempty" doc:"with happened: what the call returned; at most 64 KiB"`
		Comment string          `json:"comment,omitempty" maxLength:"4000"`
	}
}

// maxResultBytes bounds a result that a person gives.
const maxResultBytes = 64 << 10

func (a api) resolve(ctx context.Context, in *resolveInput) (*effectOutput, error) {
	who, _ := authn.FromContext(ctx)
	if !events.ValidToken(in.ID) {
		return nil, notFound(in.ID)
	}
	if string(in.Body.Result) == "null" && in.Body.Verdict != events.Happened {
		in.Body.Result = nil
	}
	if len(in.Body.Result) > maxResultBytes {
		return nil, door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, "the result has more than 65,536 bytes; give a shorter one").At("body.result", "too long")
	}
	e, err := a.service.Resolve(ctx, tools.Resolve{
		Namespace: who.Namespace, EffectID: in.ID, Verdict: in.Body.Verdict,
		Result: in.Body.Result, Comment: in.Body.Comment, By: who.Name,
	})
	if err != nil {
		if p := door.From(problem(in.ID, err)); p.Status == http.StatusServiceUnavailable {
			p.Detail = "the verdict could not be confirmed; send it again: it is taken once, however often it is sent"
			return nil, p
		}
		return nil, problem(in.ID, err)
	}
	return &effectOutput{Body: show(e)}, nil
}

func notFound(id string) error {
	return door.NotFound("there is no effect %.130q here; list them with GET /v1/effects", id)
}

func problem(id string, err error) error {
	if c, ok := errors.AsType[*tools.NotInDoubt](err); ok {
		return door.Error(http.StatusConflict, codeNotInDoubt, c.Error())
	}
	switch {
	case errors.Is(err, tools.ErrNotFound):
		return notFound(id)
	case errors.Is(err, tools.ErrInvalid), errors.Is(err, tools.ErrUnstorable):
		return door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, err.Error())
	}
	return err
}
