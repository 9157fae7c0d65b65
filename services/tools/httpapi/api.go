// Package httpapi is the HTTP door of the ledger: list, show, resolve. Reading
// never changes anything, and who resolves is the verified principal of the
// request, whatever its body says.
package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

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
	registerTotals(d, a)
	registerPages(d, a)
	tags := []string{"effects"}
	door.Register(d, huma.Operation{
		Method: http.MethodGet, Path: "/v1/effects", Tags: tags, OperationID: "list-effects",
		Summary: "List side effects, those in doubt first, then the newest",
	}, authn.Viewer, a.list)
	door.Register(d, huma.Operation{
		Method: http.MethodGet, Path: "/v1/effects/{id}", Tags: tags, OperationID: "get-effect",
		Summary: "Show one side effect with the receipts of its attempts, the calls that share it and what was said about it",
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
	State string    `query:"state" enum:"intent,held,awaiting,succeeded,failed,unknown,in_doubt,expired" doc:"in_doubt: unknown, and nobody has settled it"`
	Tool  string    `query:"tool" maxLength:"120" doc:"name of a tool; program/<name> for what programs do"`
	Run   string    `query:"run" doc:"id of a run: what it and all runs that it started changed; also effects that another run opened and one of these shares"`
	Key   string    `query:"key" maxLength:"1000" doc:"the whole key"`
	Text  string    `query:"text" maxLength:"200" doc:"in the key, the arguments, the result or the error, in any case. One page looks through 10,000 effects at most, so it may be short, or empty, and have a next_cursor"`
	Since time.Time `query:"since" doc:"begun at or after"`
	Until time.Time `query:"until" doc:"begun before"`
	Twice bool      `query:"twice" doc:"only what may have happened twice: an outcome that came too late to count says, or does not deny, that it happened"`
}

type listOutput struct{ Body door.Page[Effect] }

func (a api) list(ctx context.Context, in *listInput) (*listOutput, error) {
	if in.Run != "" && !events.RunID(in.Run).Valid() {
		return nil, door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, "the id of the run is not valid").At("query.run", "not a run id")
	}
	who, _ := authn.FromContext(ctx)
	f := tools.Filter{Namespace: who.Namespace, State: in.State, Tool: in.Tool, RunID: events.RunID(in.Run), Key: in.Key, Text: in.Text,
		From: in.Since, To: in.Until, Twice: in.Twice, Limit: in.Limit}
	var after tools.Position
	if ok, err := door.DecodeCursor(in.Cursor, &after); err != nil {
		return nil, err
	} else if ok {
		f.After = &after
	}
	found, next, err := a.service.Search(ctx, f)
	if err != nil {
		return nil, err
	}
	page := door.PageOf(found, in.Limit, func(e tools.Effect) any { return e.Position() }, show)
	if next != nil {
		page.NextCursor = door.EncodeCursor(next)
	}
	return &listOutput{page}, nil
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
	out := show(e)
	if out.Calls, err = a.sharers(ctx, e, maxSharers); err != nil {
		return nil, err
	}
	if out.Verdicts, err = a.service.Ledger().Verdicts(ctx, e.Namespace, e.ID); err != nil {
		return nil, err
	}
	return &effectOutput{Body: out}, nil
}

type resolveInput struct {
	ID   string `path:"id"`
	Body struct {
		Verdict string          `json:"verdict" enum:"happened,not_happened,give_up"`
		Result  json.RawMessage `json:"result,omitempty" doc:"with happened: what the call returned; at most 64 KiB"`
		Comment string          `json:"comment,omitempty" maxLength:"4000"`
		Epoch   int64           `json:"epoch,omitempty" minimum:"1" doc:"of the doubt that was looked at; 409 when it is another by now"`
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
		Result: in.Body.Result, Comment: in.Body.Comment, By: who.Name, Epoch: in.Body.Epoch,
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
