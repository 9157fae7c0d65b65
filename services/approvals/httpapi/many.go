package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

func registerMany(d *door.Door, a api) {
	door.Register(d, huma.Operation{
		Method: http.MethodPost, Path: "/v1/approvals/decide", Tags: []string{"approvals"}, OperationID: "decide-approvals",
		Summary: "Decide many approval requests, each by itself",
		Description: "Every request is decided as by its own call: one that was decided before, has expired or asks about something else is told so " +
			"in its place and touches no other. The answer is 200 with one result for each, in order; sent again nothing is decided twice.",
		Errors: []int{http.StatusUnprocessableEntity, http.StatusServiceUnavailable},
	}, authn.Approver, a.decideMany)
}

type manyInput struct {
	Body struct {
		Decision string     `json:"decision,omitempty" doc:"of every item that names no other, and of a group"`
		Comment  string     `json:"comment,omitempty" doc:"of every item that has no other; at most 4,000 characters"`
		Items    []manyItem `json:"items,omitempty" maxItems:"200"`
		Group    string     `json:"group,omitempty" doc:"instead of items: what waits in a group, like tool:propose_price; at most 200 at once, the newest first"`
		UpTo     time.Time  `json:"up_to,omitzero" doc:"with group: newest of the group as it was shown. What was asked later has not been seen and is not decided"`
	}
}

type manyItem struct {
	ID       string          `json:"id"`
	Digest   string          `json:"digest,omitempty" doc:"what was shown; a yes needs it"`
	Decision string          `json:"decision,omitempty"`
	Comment  *string         `json:"comment,omitempty"`
	Result   json.RawMessage `json:"result,omitempty" doc:"with happened and answer"`
	Fields   json.RawMessage `json:"fields,omitempty" doc:"with approve: what the rule's form wants filled in"`
	Args     json.RawMessage `json:"args,omitempty" doc:"with approve: arguments in the place of those that were asked about; digest is the one that POST /v1/approvals/{id}/edit said for them"`
}

type manyOutput struct {
	Body struct {
		Results []manyResult `json:"results" doc:"in the order of items; of a group, the newest first"`
		Decided int          `json:"decided" doc:"how many have the wanted decision now, made now or before"`
		More    bool         `json:"more" doc:"of a group: more than 200 waited; send it again"`
	}
}

type manyResult struct {
	ApprovalID string    `json:"approval_id"`
	Status     int       `json:"status" doc:"what deciding it alone would have answered"`
	State      string    `json:"state,omitempty"`
	DecidedBy  string    `json:"decided_by,omitempty"`
	DecidedAt  time.Time `json:"decided_at,omitzero"`
	Door       string    `json:"door,omitempty"`
	Repeated   bool      `json:"repeated,omitempty"`
	Code       string    `json:"code,omitempty" doc:"why it was not decided"`
	Detail     string    `json:"detail,omitempty"`
}

func (a api) decideMany(ctx context.Context, in *manyInput) (*manyOutput, error) {
	who, _ := authn.FromContext(ctx)
	attempts, more, err := a.attempts(ctx, in, who)
	if err != nil {
		return nil, err
	}
	out := &manyOutput{}
	out.Body.More, out.Body.Results = more, make([]manyResult, 0, len(attempts))
	for i, d := range a.service.DecideMany(ctx, attempts) {
		id := string(attempts[i].ID)
		r := d.Request
		if c, ok := conflictOf(d.Err); ok && c.Outcome != approvals.NotAllowed {
			r = c.Request
		}
		res := manyResult{ApprovalID: id, Status: http.StatusOK, State: r.State, DecidedBy: r.DecidedBy, DecidedAt: r.DecidedAt, Door: r.Door, Repeated: d.Repeated}
		switch {
		case d.Err == nil && !r.Ended(): // a yes of several
			res.Detail = "counted, " + approvals.VotesText(r)
		case d.Err == nil:
			out.Body.Decided++
		default:
			p := door.From(problem(id, d.Err))
			res.Status, res.Code, res.Detail = p.Status, p.Code, p.Detail
			if p.Status == http.StatusServiceUnavailable {
				res.Detail = unconfirmed
			}
		}
		out.Body.Results = append(out.Body.Results, res)
	}
	return out, nil
}

// attempts reads what is to be decided. Nothing is decided when one of the items
// could never be.
func (a api) attempts(ctx context.Context, in *manyInput, who authn.Principal) (out []approvals.Attempt, more bool, err error) {
	b := in.Body
	add := func(at, id, digest, decision, comment string, result, args, fields json.RawMessage) error {
		x := attemptOf(who)
		x.ID, x.Digest, x.Comment, x.Result, x.Args = events.ApprovalID(id), events.Digest(digest), comment, result, args
		x.Fields = fields
		if x.Decision, err = approvals.ParseDecision(decision); err == nil {
			err = x.Check()
		}
		if err != nil {
			return invalid(at, err.Error())
		}
		out = append(out, x)
		return nil
	}
	if (len(b.Items) > 0) == (b.Group != "") {
		return nil, false, invalid("body", "name either items or a group")
	}
	if b.Group != "" {
		k, err := approvals.ParseGroup(b.Group)
		if err != nil {
			return nil, false, invalid("body.group", err.Error())
		}
		if b.UpTo.IsZero() {
			return nil, false, invalid("body.up_to", "a group is decided as it was shown: send its newest")
		}
		found, err := a.service.Members(ctx, who.Namespace, k, b.UpTo, nil, approvals.MaxMany+1)
		if err != nil {
			return nil, false, err
		}
		for _, r := range found[:min(len(found), approvals.MaxMany)] {
			if err := add("body.decision", string(r.ID), string(r.Digest), b.Decision, b.Comment, nil, nil, nil); err != nil {
				return nil, false, err
			}
		}
		return out, len(found) > approvals.MaxMany, nil
	}
	seen := map[string]bool{}
	for i, item := range b.Items {
		at := fmt.Sprintf("body.items[%d]", i)
		decision, comment := cmp.Or(item.Decision, b.Decision), b.Comment
		if item.Comment != nil {
			comment = *item.Comment
		}
		switch d, _ := approvals.ParseDecision(decision); {
		case !events.ValidToken(item.ID):
			return nil, false, invalid(at+".id", fmt.Sprintf("%.130q is not the id of an approval", item.ID))
		case seen[item.ID]:
			return nil, false, invalid(at+".id", fmt.Sprintf("%s stands here twice", item.ID))
		case d == events.Approve && item.Digest == "":
			return nil, false, invalid(at+".digest", "a yes needs the digest that was shown")
		}
		seen[item.ID] = true
		if string(item.Result) == "null" && decision != events.Happened {
			item.Result = nil
		}
		if err := add(at, item.ID, item.Digest, decision, comment, item.Result, item.Args, item.Fields); err != nil {
			return nil, false, err
		}
	}
	return out, false, nil
}

func invalid(at, why string) error {
	return door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, why).At(at, why)
}
