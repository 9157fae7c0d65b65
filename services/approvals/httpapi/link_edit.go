package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

// editDecision is what the page posts to see what other arguments change; it decides
// nothing.
const editDecision = "edit"

// offerEdit puts a request's arguments into the page as text that may be changed,
// when they can be. What has no width or turns the direction of writing is \uXXXX,
// which means the same in JSON.
func (l *links) offerEdit(ctx context.Context, v *view, q approvals.Request) {
	if v.Open && len(q.Form()) == 0 && len(q.Args) <= events.EditBytes && l.service.Editable(ctx, q) {
		v.EditText = approvals.Visible(approvals.Indented(q.Args), 1<<20)
	}
}

// preview shows what the posted arguments change and offers the form that confirms
// exactly that: it holds their digest.
func (l *links) preview(w http.ResponseWriter, r *http.Request, token string, link approvals.Link, q approvals.Request) (int, view) {
	v := viewOf(token, link, q)
	if v.EditText = r.PostForm.Get("args"); !v.Open {
		return http.StatusConflict, v
	}
	_, p, err := l.service.Preview(r.Context(), link.Namespace, q.ID, json.RawMessage(v.EditText))
	switch {
	case errors.Is(err, approvals.ErrInvalid):
		v.Problem, v.EditText = err.Error(), ""
		return http.StatusUnprocessableEntity, v
	case err != nil:
		return l.trouble(w, err)
	case len(p.Problems) > 0:
		v.Problem = approvals.Visible(approvals.UnfitArgs(p.Problems), 2000) + ". Nothing was done."
		return http.StatusUnprocessableEntity, v
	case len(p.Changes) == 0:
		v.Message = "These are the arguments that are asked about: nothing would change."
		return http.StatusOK, v
	}
	if p.Text != "" { // what is about to be confirmed, not what was asked
		v.Title = p.Text
	}
	v.Changed = approvals.Visible(approvals.ChangesText(p.Changes), 1<<20)
	v.EditArgs, v.EditShown, v.EditNonce = string(p.Args), string(p.Digest), nonceOf(token, string(p.Digest))
	v.EditText = approvals.Visible(approvals.Indented(p.Args), 1<<20)
	return http.StatusOK, v
}
