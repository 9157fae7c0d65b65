package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

func registerDefer(d *door.Door, a api) {
	door.Register(d, huma.Operation{
		Method: http.MethodPost, Path: "/v1/approvals/{id}/defer", Tags: []string{"approvals"}, OperationID: "defer-approval",
		Summary: "Put an approval request off to a later time, before it expires",
		Description: "It waits on and is left out of the list, of groups and of the digest until then; its channel is told again at that time. It can be decided all the while. " +
			"With neither until nor for it is shown again at once.",
		Errors: []int{http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity, http.StatusServiceUnavailable},
	}, authn.Approver, a.putOff)
}

type deferInput struct {
	ID   string `path:"id"`
	Body struct {
		Until   time.Time `json:"until,omitzero" doc:"a time to come, before the request expires"`
		For     string    `json:"for,omitempty" doc:"how long, such as 90m or 4h, by the database's clock; instead of until"`
		Comment string    `json:"comment,omitempty" doc:"for the record, at most 4,000 characters"`
	}
}

func (a api) putOff(ctx context.Context, in *deferInput) (*getOutput, error) {
	who, _ := authn.FromContext(ctx)
	if !events.ValidToken(in.ID) {
		return nil, notFound(in.ID)
	}
	var wait time.Duration
	if in.Body.For != "" {
		var err error
		if wait, err = time.ParseDuration(in.Body.For); err != nil || wait <= 0 {
			return nil, door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, "for is no duration above zero, such as 90m or 4h").At("body.for", "not a duration")
		}
	}
	r, err := a.service.Defer(ctx, approvals.Deferral{ID: events.ApprovalID(in.ID), Namespace: who.Namespace, Until: in.Body.Until.UTC(), For: wait,
		Comment: in.Body.Comment, By: who.Name, Groups: who.Groups, Role: who.Role.String(), Door: approvals.DoorAPI})
	if c, ok := conflictOf(err); ok && c.Outcome == approvals.Unfit {
		return nil, door.Error(http.StatusUnprocessableEntity, codeUnfit, c.Error())
	}
	if err != nil {
		return nil, problem(in.ID, err)
	}
	return &getOutput{Body: show(r)}, nil
}
