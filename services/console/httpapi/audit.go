package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/services/console"
)

// Act is what somebody did at a door.
type Act struct {
	ID        string     `json:"id"`
	At        time.Time  `json:"at"`
	Service   string     `json:"service"`
	Actor     string     `json:"actor" doc:"name of the token or person"`
	Role      string     `json:"role,omitempty"`
	TokenID   string     `json:"token_id,omitempty"`
	SessionID string     `json:"session_id,omitempty"`
	Door      string     `json:"door" doc:"page: a browser; client: the command line or a Go program; api; link, slack: of approvals"`
	Action    string     `json:"action" doc:"id of the operation, or method and path of a page"`
	Target    string     `json:"target,omitempty" doc:"what the path names, or what a form chose"`
	Reason    string     `json:"reason,omitempty" doc:"as its sender gave it"`
	RequestID string     `json:"request_id,omitempty"`
	Status    int        `json:"status,omitempty" doc:"of the answer"`
	Outcome   string     `json:"outcome" enum:"done,refused,failed,unknown" doc:"unknown: the process ended before it could say"`
	EndedAt   *time.Time `json:"ended_at,omitempty"`
}

func wireAct(a console.Act) Act {
	return Act{ID: a.ID, At: a.At, Service: a.Service, Actor: a.Actor, Role: a.Role, TokenID: a.TokenID, SessionID: a.SessionID, Door: a.Door, Action: a.Action, Target: a.Target,
		Reason: a.Reason, RequestID: a.RequestID, Status: a.Status, Outcome: a.Outcome, EndedAt: orNil(a.EndedAt)}
}

type listActsInput struct {
	door.PageInput
	Actor   string    `query:"actor" maxLength:"120" doc:"exactly"`
	Action  string    `query:"action" maxLength:"200" doc:"a part of it"`
	Target  string    `query:"target" maxLength:"200" doc:"a part of it: an id"`
	Door    string    `query:"door" enum:"page,client,api,link,slack"`
	Outcome string    `query:"outcome" enum:"done,refused,failed,unknown"`
	Since   time.Time `query:"since"`
	Until   time.Time `query:"until"`
}

type listActsOutput struct{ Body door.Page[Act] }

func (in *listActsInput) filter(namespace string) (console.ActFilter, error) {
	f := console.ActFilter{Namespace: namespace, Actor: in.Actor, Action: in.Action, Target: in.Target, Door: in.Door, Outcome: in.Outcome, Since: in.Since, Until: in.Until, Limit: in.Limit + 1}
	var at console.ActPosition
	ok, err := door.DecodeCursor(in.Cursor, &at)
	if ok {
		f.Before = &at
	}
	return f, err
}

func positionOf(a console.Act) any { return console.ActPosition{At: a.At, ID: a.ID} }

func (a *api) audit() {
	door.Register(a.door, huma.Operation{
		OperationID: "list-audit", Method: http.MethodGet, Path: "/v1/audit", Summary: "What people and programs did, newest first", Tags: []string{"system"},
		Description: "Every request that changes something, of every service, with who sent it; also those that were refused for the sender's role. No bodies.",
	}, authn.Operator, func(ctx context.Context, in *listActsInput) (*listActsOutput, error) {
		p, _ := authn.FromContext(ctx)
		f, err := in.filter(p.Namespace)
		if err != nil {
			return nil, err
		}
		found, err := a.console.Acts(ctx, f)
		if err != nil {
			return nil, err
		}
		return &listActsOutput{door.PageOf(found, in.Limit, positionOf, wireAct)}, nil
	})
}
