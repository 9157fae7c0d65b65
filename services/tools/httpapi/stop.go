package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

func registerStops(d *door.Door, a api) {
	tags := []string{"stops"}
	door.Register(d, huma.Operation{
		Method: http.MethodPost, Path: "/v1/stops", Tags: tags, OperationID: "stop-writes",
		Summary: "Let no new write leave",
		Description: "When this is answered, no process begins a write of the scope any more; what began up to a second before may still arrive. " +
			"Writes wait as held and go on by themselves after the release; reads, and waiting, go on. " +
			"A stop of the same scope that stands already is the answer. One tool or agent: operator; all: admin.",
		Errors: []int{http.StatusForbidden, http.StatusUnprocessableEntity},
	}, authn.Operator, a.stop)
	door.Register(d, huma.Operation{
		Method: http.MethodGet, Path: "/v1/stops", Tags: tags, OperationID: "list-stops",
		Summary: "List stops, also those that have ended, newest first",
	}, authn.Viewer, a.stops)
	door.Register(d, huma.Operation{
		Method: http.MethodGet, Path: "/v1/stops/preview", Tags: tags, OperationID: "preview-stop",
		Summary: "Say what a stop would meet now, without stopping anything",
		Errors:  []int{http.StatusUnprocessableEntity},
	}, authn.Viewer, a.previewStop)
	door.Register(d, huma.Operation{
		Method: http.MethodPost, Path: "/v1/stops/{id}/release", Tags: tags, OperationID: "release-stop",
		Summary:     "End a stop: what it held goes on",
		Description: "Approvals are looked at again. A stop that has ended is answered as it is. One tool or agent: operator; all: admin.",
		Errors:      []int{http.StatusForbidden, http.StatusNotFound, http.StatusUnprocessableEntity},
	}, authn.Operator, a.release)
}

// Stop is an order that no new write leaves.
type Stop struct {
	ID      string    `json:"stop_id"`
	Scope   string    `json:"scope" enum:"all,agent,tool"`
	Name    string    `json:"name,omitempty" doc:"of the agent or tool"`
	Note    string    `json:"note"`
	By      string    `json:"by"`
	Since   time.Time `json:"since"`
	EndedAt time.Time `json:"ended_at,omitzero" doc:"absent while it stands"`
	EndedBy string    `json:"ended_by,omitempty"`
	EndNote string    `json:"end_note,omitempty"`
	Held    int64     `json:"held" doc:"effects that wait because of it"`
}

func showStop(s tools.Stop) Stop {
	return Stop{ID: s.ID, Scope: s.Scope, Name: s.Name, Note: s.Note, By: s.By, Since: s.Since,
		EndedAt: s.EndedAt, EndedBy: s.EndedBy, EndNote: s.EndNote, Held: s.Held}
}

type stopInput struct {
	Body struct {
		Scope string `json:"scope" enum:"all,agent,tool"`
		Name  string `json:"name,omitempty" maxLength:"130" doc:"of the agent, flow or tool; program/NAME for what programs do"`
		Note  string `json:"note" minLength:"1" maxLength:"1000" doc:"why, for whoever finds it stopped"`
	}
}

type stopOutput struct{ Body Stop }

// mayStop refuses a stop of everything to who is not an administrator.
func mayStop(who authn.Principal, scope string) error {
	if scope == tools.StopAll && !who.Role.Allows(authn.Admin) {
		return door.Error(http.StatusForbidden, door.CodeForbidden, "stopping or starting everything needs the role admin; one tool or agent needs operator")
	}
	return nil
}

func (a api) stop(ctx context.Context, in *stopInput) (*stopOutput, error) {
	who, _ := authn.FromContext(ctx)
	if err := mayStop(who, in.Body.Scope); err != nil {
		return nil, err
	}
	s, err := a.service.StopWrites(ctx, tools.Stop{Namespace: who.Namespace, Scope: in.Body.Scope, Name: in.Body.Name, Note: in.Body.Note, By: who.Name})
	if err != nil {
		return nil, problem("", err)
	}
	return &stopOutput{showStop(s)}, nil
}

type previewStopInput struct {
	Scope string `query:"scope" required:"true" enum:"all,agent,tool"`
	Name  string `query:"name" maxLength:"130"`
}

type previewStopOutput struct {
	Body struct {
		Runs     int64    `json:"runs" doc:"that have not ended; of an agent's stop its runs and those that they started; absent of a tool's"`
		Waiting  int64    `json:"waiting" doc:"effects that wait for another attempt and would be held"`
		UnderWay int64    `json:"under_way" doc:"effects that have left, or may have, and cannot be called back"`
		Means    []string `json:"means" doc:"the same for people"`
	}
}

func (a api) previewStop(ctx context.Context, in *previewStopInput) (*previewStopOutput, error) {
	who, _ := authn.FromContext(ctx)
	s := tools.Stop{Namespace: who.Namespace, Scope: in.Scope, Name: in.Name, Note: "preview"}
	if err := s.Check(); err != nil {
		return nil, problem("", err)
	}
	toll, err := a.service.Ledger().Toll(ctx, who.Namespace, s.Scope, s.Name)
	if err != nil {
		return nil, err
	}
	out := &previewStopOutput{}
	out.Body.Runs, out.Body.Waiting, out.Body.UnderWay, out.Body.Means = toll.Runs, toll.Waiting, toll.UnderWay, tollText(s, toll)
	return out, nil
}

type stopsInput struct {
	door.PageInput
	Standing bool `query:"standing" doc:"leave out those that have ended"`
}

type stopsOutput struct{ Body door.Page[Stop] }

func (a api) stops(ctx context.Context, in *stopsInput) (*stopsOutput, error) {
	who, _ := authn.FromContext(ctx)
	f := tools.StopFilter{Namespace: who.Namespace, Standing: in.Standing, Limit: in.Limit + 1}
	var after tools.StopPosition
	if ok, err := door.DecodeCursor(in.Cursor, &after); err != nil {
		return nil, err
	} else if ok {
		f.After = &after
	}
	found, err := a.service.Stops(ctx, f)
	if err != nil {
		return nil, err
	}
	return &stopsOutput{door.PageOf(found, in.Limit, func(s tools.Stop) any { return s.Position() }, showStop)}, nil
}

type releaseInput struct {
	ID   string `path:"id"`
	Body struct {
		Note string `json:"note,omitempty" maxLength:"1000" doc:"kept with who released it"`
	}
}

func (a api) release(ctx context.Context, in *releaseInput) (*stopOutput, error) {
	who, _ := authn.FromContext(ctx)
	if !events.ValidToken(in.ID) {
		return nil, noStop(in.ID)
	}
	s, err := a.service.FindStop(ctx, who.Namespace, in.ID)
	if err == nil {
		if err := mayStop(who, s.Scope); err != nil {
			return nil, err
		}
		s, err = a.service.StartWrites(ctx, who.Namespace, in.ID, who.Name, in.Body.Note)
	}
	switch {
	case errors.Is(err, tools.ErrNotFound):
		return nil, noStop(in.ID)
	case err != nil:
		return nil, problem("", err)
	}
	return &stopOutput{showStop(s)}, nil
}

func noStop(id string) error {
	return door.NotFound("there is no stop %.130q here; list them with GET /v1/stops", id)
}
