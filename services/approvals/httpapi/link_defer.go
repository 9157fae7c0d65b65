package httpapi

import (
	"errors"
	"net/http"

	"github.com/holdfast-run/holdfast/services/approvals"
)

// putOff puts the request of a link off by one of the spans that its page offers.
func (l *links) putOff(w http.ResponseWriter, r *http.Request, token string, link approvals.Link, q approvals.Request) (int, view) {
	put, err := l.service.DeferLinked(r.Context(), token, r.PostForm.Get("decision"), r.PostForm.Get("comment"))
	c, conflict := errors.AsType[*approvals.Conflict](err)
	switch {
	case err == nil:
		v := viewOf(token, link, put)
		v.Message = "It is in the inbox again."
		if v.Deferred != "" {
			v.Message = "It is " + v.Deferred + ". You are told again then, and may decide it all the while."
		}
		l.offerEdit(r.Context(), &v, put)
		return http.StatusOK, v
	case conflict && c.Outcome == approvals.NotAllowed:
		return http.StatusForbidden, view{Title: "Not yours to decide", Message: c.Error()}
	case conflict && c.Outcome != approvals.Unfit:
		v := viewOf(token, link, c.Request)
		v.Problem = "It was not put off: " + c.Error()
		return http.StatusConflict, v
	case conflict, errors.Is(err, approvals.ErrInvalid):
		v := viewOf(token, link, q)
		v.Problem = err.Error()
		l.offerEdit(r.Context(), &v, q)
		return http.StatusUnprocessableEntity, v
	}
	return l.trouble(w, err)
}
