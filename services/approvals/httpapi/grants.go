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
	"github.com/holdfast-run/holdfast/services/approvals"
)

func registerGrants(d *door.Door, a api) {
	tags := []string{"approvals"}
	door.Register(d, huma.Operation{
		Method: http.MethodPost, Path: "/v1/grants", Tags: tags, OperationID: "make-grant", DefaultStatus: http.StatusCreated,
		Summary:     "Allow calls of one tool before they are asked, within bounds",
		Description: "A call that the grant allows is approved in the commit that creates its request, by whoever may decide it: where a rule names others, or wants more than one yes, a form or a comment, people are asked as ever.",
		Errors:      []int{http.StatusNotFound, http.StatusUnprocessableEntity, http.StatusServiceUnavailable},
	}, authn.Approver, a.makeGrant)
	door.Register(d, huma.Operation{
		Method: http.MethodGet, Path: "/v1/grants", Tags: tags, OperationID: "list-grants", Summary: "List grants, newest first",
	}, authn.Viewer, a.listGrants)
	door.Register(d, huma.Operation{
		Method: http.MethodGet, Path: "/v1/grants/{id}", Tags: tags, OperationID: "get-grant", Summary: "Show one grant and what was used of it",
	}, authn.Viewer, a.getGrant)
	door.Register(d, huma.Operation{
		Method: http.MethodPost, Path: "/v1/grants/{id}/revoke", Tags: tags, OperationID: "revoke-grant", Summary: "End a grant; again it changes nothing",
		Errors: []int{http.StatusNotFound, http.StatusServiceUnavailable},
	}, authn.Approver, a.revokeGrant)
}

// Grant is a bounded permission as the door shows it.
type Grant struct {
	GrantID   string    `json:"grant_id"`
	Namespace string    `json:"namespace"`
	State     string    `json:"state" enum:"active,used_up,expired,revoked"`
	Tool      string    `json:"tool"`
	Agent     string    `json:"agent,omitempty" doc:"empty: any"`
	When      string    `json:"when,omitempty" doc:"CEL over args"`
	Count     int64     `json:"count" doc:"how many calls it allows"`
	Used      int64     `json:"used"`
	AmountOf  string    `json:"amount_of,omitempty" doc:"the argument that max_amount bounds"`
	MaxAmount string    `json:"max_amount,omitempty" doc:"what all calls together may come to"`
	Amount    string    `json:"amount,omitempty" doc:"what they have come to"`
	ExpiresAt time.Time `json:"expires_at"`
	Comment   string    `json:"comment,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by"`
	RevokedAt time.Time `json:"revoked_at,omitzero"`
	RevokedBy string    `json:"revoked_by,omitempty"`
}

func showGrant(g approvals.Grant) Grant {
	out := Grant{
		GrantID: g.ID, Namespace: g.Namespace, State: "active", Tool: g.Tool, Agent: g.Agent, When: g.When, Count: g.MaxUses, Used: g.Used,
		AmountOf: g.AmountOf, MaxAmount: g.MaxAmount, ExpiresAt: g.ExpiresAt, Comment: g.Comment, CreatedAt: g.CreatedAt, CreatedBy: g.Maker.Name,
		RevokedAt: g.RevokedAt, RevokedBy: g.RevokedBy,
	}
	if g.AmountOf != "" {
		out.Amount = g.Amount
	}
	switch {
	case !g.RevokedAt.IsZero():
		out.State = "revoked"
	case g.Used >= g.MaxUses:
		out.State = "used_up"
	case !time.Now().Before(g.ExpiresAt):
		out.State = "expired"
	}
	return out
}

type grantOutput struct{ Body Grant }

type makeGrantInput struct {
	Body struct {
		Like      string `json:"like,omitempty" doc:"id of an approval: the same tool and agent, unless tool says otherwise; who makes the grant must be allowed to decide it"`
		Tool      string `json:"tool,omitempty"`
		Agent     string `json:"agent,omitempty" doc:"empty: any"`
		When      string `json:"when,omitempty" doc:"CEL over args: args.price < 100.0"`
		Count     int64  `json:"count" minimum:"1" maximum:"100000"`
		AmountOf  string `json:"amount_of,omitempty" doc:"with max_amount: the argument that it bounds, like args.amount"`
		MaxAmount string `json:"max_amount,omitempty" doc:"what all calls together may come to, a decimal like 250.00"`
		ExpiresIn int64  `json:"expires_in_s" minimum:"60" maximum:"31622400" doc:"seconds from now"`
		Comment   string `json:"comment,omitempty" maxLength:"4000"`
	}
}

func (a api) makeGrant(ctx context.Context, in *makeGrantInput) (*grantOutput, error) {
	who, _ := authn.FromContext(ctx)
	b := in.Body
	if b.Like != "" && !events.ValidToken(b.Like) {
		return nil, notFound(b.Like)
	}
	g, err := a.service.MakeGrant(ctx, approvals.Grant{
		Namespace: who.Namespace, Tool: b.Tool, Agent: b.Agent, When: b.When, MaxUses: b.Count, AmountOf: b.AmountOf, MaxAmount: b.MaxAmount, Comment: b.Comment,
		Maker: approvals.Maker{Name: who.Name, Role: who.Role.String(), Groups: who.Groups},
	}, time.Duration(b.ExpiresIn)*time.Second, events.ApprovalID(b.Like))
	if err != nil {
		return nil, problem(b.Like, err)
	}
	return &grantOutput{Body: showGrant(g)}, nil
}

type listGrantsInput struct {
	door.PageInput
	All bool `query:"all" doc:"also those that allow nothing any more"`
}

type listGrantsOutput struct{ Body door.Page[Grant] }

func (a api) listGrants(ctx context.Context, in *listGrantsInput) (*listGrantsOutput, error) {
	who, _ := authn.FromContext(ctx)
	f := approvals.GrantFilter{Namespace: who.Namespace, All: in.All, Limit: in.Limit + 1}
	var before approvals.GrantPosition
	if ok, err := door.DecodeCursor(in.Cursor, &before); err != nil {
		return nil, err
	} else if ok {
		f.Before = &before
	}
	found, err := a.service.ListGrants(ctx, f)
	if err != nil {
		return nil, err
	}
	return &listGrantsOutput{door.PageOf(found, in.Limit, func(g approvals.Grant) any {
		return approvals.GrantPosition{CreatedAt: g.CreatedAt, ID: g.ID}
	}, showGrant)}, nil
}

func (a api) getGrant(ctx context.Context, in *getInput) (*grantOutput, error) {
	who, _ := authn.FromContext(ctx)
	if !events.ValidToken(in.ID) {
		return nil, noGrant(in.ID)
	}
	g, err := a.service.Grant(ctx, who.Namespace, in.ID)
	return granted(in.ID, g, err)
}

func (a api) revokeGrant(ctx context.Context, in *getInput) (*grantOutput, error) {
	who, _ := authn.FromContext(ctx)
	if !events.ValidToken(in.ID) {
		return nil, noGrant(in.ID)
	}
	g, err := a.service.RevokeGrant(ctx, who.Namespace, in.ID, who.Name)
	return granted(in.ID, g, err)
}

func granted(id string, g approvals.Grant, err error) (*grantOutput, error) {
	if errors.Is(err, approvals.ErrNotFound) {
		return nil, noGrant(id)
	}
	if err != nil {
		return nil, err
	}
	return &grantOutput{Body: showGrant(g)}, nil
}

func noGrant(id string) error {
	return door.NotFound("there is no grant %.130q here; see them with GET /v1/grants?all=true", id)
}
