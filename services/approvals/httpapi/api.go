// Package httpapi is the HTTP door of approvals: list, show, decide. Reading
// never changes anything, and who decides is the verified principal of the
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
	"github.com/holdfast-run/holdfast/services/approvals"
)

// Register adds the routes of s to d.
func Register(d *door.Door, s *approvals.Service) {
	a := api{service: s}
	tags := []string{"approvals"}
	door.Register(d, huma.Operation{
		Method: http.MethodGet, Path: "/v1/approvals", Tags: tags, OperationID: "list-approvals",
		Summary: "List approval requests, newest first",
	}, authn.Viewer, a.list)
	door.Register(d, huma.Operation{
		Method: http.MethodGet, Path: "/v1/approvals/{id}", Tags: tags, OperationID: "get-approval",
		Summary: "Show one approval request",
	}, authn.Viewer, a.get)
	door.Register(d, huma.Operation{
		Method: http.MethodPost, Path: "/v1/approvals/{id}/decide", Tags: tags, OperationID: "decide-approval",
		Summary: "Decide an approval request, once",
		Description: "The first decision wins. The same decision again answers 200 with the stored one; another decision, " +
			"or one after the expiry or the withdrawal, answers 409 and changes nothing. 200 means that the decision is stored " +
			"and reaches the run by itself.",
		Errors: []int{http.StatusForbidden, http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity, http.StatusServiceUnavailable},
	}, authn.Approver, a.decide)
	door.Register(d, huma.Operation{
		Method: http.MethodGet, Path: "/v1/notices", Tags: tags, OperationID: "list-notices",
		Summary: "List what people were told in channels, newest first",
	}, authn.Viewer, a.notices)
	registerMany(d, a)
	registerAudit(d, a)
	registerGrants(d, a)
	registerEdits(d, a)
	registerDefer(d, a)
	registerResend(d, a)
	registerSlack(d, a)
	registerLinks(d, a)
	registerPages(d, a)
}

// Codes of the 409 answers.
const (
	codeDecided   = "already_decided"
	codeExpired   = "approval_expired"
	codeWithdrawn = "approval_withdrawn"
	codeMismatch  = "digest_mismatch"
	codeNotYours  = "not_allowed"      // 403
	codeWrongKind = "wrong_decision"   // 422
	codeUnfit     = "unfit_answer"     // 422
	codeComment   = "comment_required" // 422
)

type api struct{ service *approvals.Service }

type listInput struct {
	door.PageInput
	State string `query:"state" default:"pending" enum:"pending,approved,rejected,happened,not_happened,give_up,answered,expired,withdrawn,all"`
	Kind  string `query:"kind" enum:"action,doubt,question"`
	Run   string `query:"run" doc:"id of a run"`
	// Deferred narrows what waits; groups never show what was put off.
	Deferred string `query:"deferred" default:"hide" enum:"hide,show,only" doc:"requests that wait and were put off to a later time"`
	// GroupBy and Group are of the inbox, see groups.go.
	GroupBy string `query:"group_by" enum:"flow,agent,tool,similarity" doc:"list what waits in groups, the next to expire first; similarity: the same tool and names of arguments, with other values"`
	Group   string `query:"group" maxLength:"400" doc:"only what waits in this group, like tool:propose_price"`
}

type listOutput struct {
	Body struct {
		door.Page[Approval]
		Groups []Group `json:"groups,omitempty" doc:"with group_by, instead of items"`
	}
}

func (a api) listOf(ctx context.Context, found []approvals.Request, limit int) *listOutput {
	who, _ := authn.FromContext(ctx)
	var shown []approvals.Request
	out := &listOutput{}
	out.Body.Page = door.PageOf(found, limit, func(r approvals.Request) any {
		return approvals.Position{CreatedAt: r.CreatedAt, ID: r.ID}
	}, func(r approvals.Request) Approval {
		r = r.SeenBy(personOf(who))
		shown = append(shown, r)
		return show(r)
	})
	a.service.Shown(ctx, who.Name, approvals.DoorAPI, shown...)
	return out
}

func (a api) list(ctx context.Context, in *listInput) (*listOutput, error) {
	switch {
	case in.Group != "":
		return a.members(ctx, in)
	case in.GroupBy != "":
		return a.groups(ctx, in)
	}
	if in.Run != "" && !events.RunID(in.Run).Valid() {
		return nil, door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, "the id of the run is not valid").At("query.run", "not a run id")
	}
	who, _ := authn.FromContext(ctx)
	f := approvals.Filter{Namespace: who.Namespace, State: in.State, Kind: in.Kind, RunID: events.RunID(in.Run), Limit: in.Limit + 1}
	if f.State == "all" {
		f.State = ""
	}
	if f.State == approvals.StatePending && in.Deferred != "show" {
		f.Deferred = in.Deferred
	}
	var before approvals.Position
	if ok, err := door.DecodeCursor(in.Cursor, &before); err != nil {
		return nil, err
	} else if ok {
		f.Before = &before
	}
	found, err := a.service.List(ctx, f)
	if err != nil {
		return nil, err
	}
	return a.listOf(ctx, found, in.Limit), nil
}

type getInput struct {
	ID string `path:"id"`
}

type getOutput struct{ Body Approval }

func (a api) get(ctx context.Context, in *getInput) (*getOutput, error) {
	who, _ := authn.FromContext(ctx)
	if !events.ValidToken(in.ID) {
		return nil, notFound(in.ID)
	}
	r, err := a.service.Get(ctx, who.Namespace, events.ApprovalID(in.ID))
	if err != nil {
		return nil, problem(in.ID, err)
	}
	r = r.SeenBy(personOf(who))
	a.service.Shown(ctx, who.Name, approvals.DoorAPI, r)
	return &getOutput{Body: show(r)}, nil
}

type decideInput struct {
	ID   string `path:"id"`
	Body struct {
		Decision string          `json:"decision" doc:"approve or reject for an action; happened, not_happened or give_up for a doubt; answer for a question"`
		Comment  string          `json:"comment,omitempty" doc:"at most 4,000 characters; the model reads the reason of a rejection. A rule may require one"`
		Result   json.RawMessage `json:"result,omitempty" doc:"with happened: what the call returned; with answer: the answer, any JSON of at most 64 KiB that the question allows"`
		Args     json.RawMessage `json:"args,omitempty" doc:"with approve: arguments in the place of those that were asked about; digest must be the one that POST /v1/approvals/{id}/edit said for them"`
		Fields   json.RawMessage `json:"fields,omitempty" doc:"with approve: an object with what the rule's form wants filled in; the digest is the one that was shown, with args beside it the one that POST /v1/approvals/{id}/edit said for both"`
		Digest   string          `json:"digest,omitempty" doc:"the digest that was shown; a request that asks about something else is not decided. A yes to a request with a rule needs it"`
	}
}

type decideOutput struct {
	Body struct {
		Approval
		Repeated bool `json:"repeated" doc:"true when the same decision had been made before; what is shown is that one"`
	}
}

func (a api) decide(ctx context.Context, in *decideInput) (*decideOutput, error) {
	who, _ := authn.FromContext(ctx)
	if !events.ValidToken(in.ID) {
		return nil, notFound(in.ID)
	}
	if string(in.Body.Result) == "null" && in.Body.Decision != events.Happened {
		in.Body.Result = nil
	}
	x := attemptOf(who)
	x.ID, x.Decision, x.Comment, x.Result, x.Args, x.Digest = events.ApprovalID(in.ID), in.Body.Decision, in.Body.Comment, in.Body.Result, in.Body.Args, events.Digest(in.Body.Digest)
	x.Fields = in.Body.Fields
	r, repeated, err := a.service.Decide(ctx, x)
	if err != nil {
		if p := door.From(problem(in.ID, err)); p.Status == http.StatusServiceUnavailable {
			p.Detail = unconfirmed
			return nil, p
		}
		return nil, problem(in.ID, err)
	}
	out := &decideOutput{}
	out.Body.Approval, out.Body.Repeated = show(r), repeated
	return out, nil
}

const unconfirmed = "the decision could not be confirmed; send it again: it is made once, however often it is sent"

// attemptOf is an attempt of who has the token of the request, whatever its body says.
func attemptOf(who authn.Principal) approvals.Attempt {
	return approvals.Attempt{Namespace: who.Namespace, By: who.Name, Groups: who.Groups, Role: who.Role.String(), Door: approvals.DoorAPI}
}

func personOf(who authn.Principal) approvals.Person {
	return approvals.Person{Name: who.Name, Groups: who.Groups, Role: who.Role.String()}
}

func conflictOf(err error) (*approvals.Conflict, bool) {
	return errors.AsType[*approvals.Conflict](err)
}

func notFound(id string) error {
	return door.NotFound("there is no approval %.130q here; see what waits with GET /v1/approvals", id)
}

func problem(id string, err error) error {
	if c, ok := conflictOf(err); ok {
		switch c.Outcome {
		case approvals.TooLate:
			return door.Error(http.StatusConflict, codeExpired, c.Error())
		case approvals.Gone:
			return door.Error(http.StatusConflict, codeWithdrawn, c.Error())
		case approvals.NotAllowed:
			return door.Error(http.StatusForbidden, codeNotYours, c.Error())
		case approvals.Mismatch:
			return door.Error(http.StatusConflict, codeMismatch, c.Error())
		case approvals.Unfit:
			return door.Error(http.StatusUnprocessableEntity, codeUnfit, c.Error())
		case approvals.NoComment:
			return door.Error(http.StatusUnprocessableEntity, codeComment, c.Error())
		case approvals.WrongKind:
			return door.Error(http.StatusUnprocessableEntity, codeWrongKind, c.Error())
		}
		return door.Error(http.StatusConflict, codeDecided, c.Error())
	}
	switch {
	case errors.Is(err, approvals.ErrNotFound):
		return notFound(id)
	case errors.Is(err, approvals.ErrInvalid):
		return door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, err.Error())
	}
	return err
}
