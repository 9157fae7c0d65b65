package httpapi

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

// Change is one place that an edit changes.
type Change struct {
	Path string          `json:"path" doc:"such as $.lines[3].amount"`
	From json.RawMessage `json:"from,omitempty" doc:"absent: it was not there"`
	To   json.RawMessage `json:"to,omitempty" doc:"absent: it is taken out"`
}

// Edited is what a person made of a request's arguments.
type Edited struct {
	Args    json.RawMessage `json:"args"`
	Digest  string          `json:"digest" doc:"what the yes is bound to"`
	Changes []Change        `json:"changes"`
}

func changes(all []events.Change) []Change {
	out := make([]Change, 0, len(all))
	for _, c := range all {
		out = append(out, Change(c))
	}
	return out
}

func registerEdits(d *door.Door, a api) {
	door.Register(d, huma.Operation{
		Method: http.MethodPost, Path: "/v1/approvals/{id}/edit", Tags: []string{"approvals"}, OperationID: "preview-approval-edit",
		Summary: "Show what other arguments would change; nothing is decided",
		Description: "Send the digest of the answer with the decision approve and the same args: what was shown is then what runs. " +
			"Arguments that the tool would not take have problems and no digest. The tool itself cannot be changed.",
		Errors: []int{http.StatusForbidden, http.StatusNotFound, http.StatusUnprocessableEntity},
	}, authn.Approver, a.edit)
}

type editInput struct {
	ID   string `path:"id"`
	Body struct {
		Args   json.RawMessage `json:"args,omitempty" doc:"all of the arguments, as the tool is to get them; at most 64 KiB. Absent, with fields: those that were asked about"`
		Fields json.RawMessage `json:"fields,omitempty" doc:"an object with what the rule's form wants filled in"`
	}
}

type editOutput struct {
	Body struct {
		Args     json.RawMessage `json:"args,omitempty" doc:"in canonical form"`
		Preview  string          `json:"preview,omitempty" doc:"the changed call in one line, as the tool's preview has it"`
		Digest   string          `json:"digest,omitempty" doc:"confirms exactly these; absent with problems"`
		Changes  []Change        `json:"changes" doc:"empty: they are those that were asked about"`
		Problems []problemAt     `json:"problems,omitempty" doc:"why the tool would not take them"`
	}
}

type problemAt struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

func (a api) edit(ctx context.Context, in *editInput) (*editOutput, error) {
	who, _ := authn.FromContext(ctx)
	if !events.ValidToken(in.ID) {
		return nil, notFound(in.ID)
	}
	r, err := a.service.Get(ctx, who.Namespace, events.ApprovalID(in.ID))
	if err != nil {
		return nil, problem(in.ID, err)
	}
	if why := approvals.MayNot(r, personOf(who)); why != "" {
		return nil, problem(in.ID, &approvals.Conflict{Outcome: approvals.NotAllowed, Request: r, Detail: why})
	}
	if in.Body.Args == nil && in.Body.Fields == nil {
		return nil, invalid("body.args", "send the arguments as the tool is to get them, or what is filled in as fields")
	}
	_, p, err := a.service.PreviewFilled(ctx, who.Namespace, r.ID, in.Body.Args, in.Body.Fields)
	if err != nil {
		return nil, problem(in.ID, err)
	}
	out := &editOutput{}
	out.Body.Args, out.Body.Digest, out.Body.Changes = p.Args, string(p.Digest), changes(p.Changes)
	out.Body.Preview = p.Text
	for _, v := range p.Problems {
		out.Body.Problems = append(out.Body.Problems, problemAt{v.Path, v.Message})
	}
	return out, nil
}
