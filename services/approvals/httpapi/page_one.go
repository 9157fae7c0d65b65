package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
	"github.com/holdfast-run/holdfast/web"
)

// onePage is one request: what exactly it is about, who may decide, who has, and the
// forms that decide, change and put off.
type onePage struct {
	web.Frame
	Item             itemView
	Kind, State      string
	Tool, Agent      string
	Requester        string
	Labels           map[string]string
	Ended            string // how; empty while it waits
	Open             bool
	Comment          string // of the decision
	Message, Problem string
	Question, To     string
	Schema           string
	Choices          []approvals.Choice
	Answers, Results bool
	Changes          []changeView
	Typed            string // the comment that was typed
	Form             []formInput

	EditText   string // arguments that may be changed; empty: they may not
	EditArgs   string // of the form that confirms
	EditDigest string
	EditTitle  string // what the changed call reads as

	Spans []approvals.Span
}

type changeView struct{ Path, From, To string }

func changeViews(all []events.Change) (out []changeView) {
	for _, c := range all {
		out = append(out, changeView{approvals.Visible(c.Path, 500), approvals.Visible(string(c.From), 5000), approvals.Visible(string(c.To), 5000)})
	}
	return out
}

// find reads the request of a page's address.
func (p pages) find(r *http.Request, who authn.Principal) (approvals.Request, error) {
	id := r.PathValue("id")
	if !events.ValidToken(id) {
		return approvals.Request{}, notFound(id)
	}
	q, err := p.service.Get(r.Context(), who.Namespace, events.ApprovalID(id))
	if err != nil {
		return q, problem(id, err)
	}
	return q, nil
}

// one answers GET /ui/approvals/{id}; it changes nothing but the record of who read.
func (p pages) one(w http.ResponseWriter, r *http.Request) error {
	who, _ := authn.FromContext(r.Context())
	q, err := p.find(r, who)
	if err != nil {
		return err
	}
	return p.showOne(w, r, who, q, http.StatusOK, onePage{})
}

func (p pages) showOne(w http.ResponseWriter, r *http.Request, who authn.Principal, q approvals.Request, status int, data onePage) error {
	seen := q.SeenBy(personOf(who))
	p.service.Shown(r.Context(), who.Name, approvals.DoorPage, seen)
	data.Item = itemOf(q, who)
	data.Frame = door.FrameOf(r, data.Item.Title)
	data.Kind, data.State, data.Tool, data.Agent = q.Kind, q.State, approvals.Visible(q.Tool, 200), approvals.Visible(q.Agent, 200)
	data.Requester, data.Open = approvals.Visible(q.Requester, 200), !q.Ended()
	if q.Ended() {
		data.Ended = approvals.EndedText(seen)
	}
	if seen.Hidden {
		return web.Write(w, status, "approval", data)
	}
	data.Labels, data.Comment = q.Labels, approvals.Visible(q.Comment, approvals.MaxCommentChars)
	if data.Changes == nil {
		data.Changes = changeViews(q.Changes())
	}
	if q.Question != nil {
		data.Question, data.To = approvals.Visible(q.Question.Text, 1<<20), approvals.Visible(q.Question.To, 300)
		data.Schema = approvals.Visible(approvals.Indented(q.Question.Schema), 20_000)
	}
	if data.Open && data.Item.May {
		data.Form = inputsOf(q, r.PostForm.Get)
		data.Choices, data.Results = approvals.ChoicesOf(q), q.Kind == events.ApprovalDoubt
		data.Answers = q.Question != nil && len(q.Question.Choices) == 0
		data.Spans = approvals.SpansOf(q, personOf(who), nil, time.Now())
		if data.EditText == "" && len(q.Args) <= events.EditBytes && p.service.Editable(r.Context(), q) {
			data.EditText = approvals.Visible(approvals.Indented(q.Args), 1<<20)
		}
	}
	return web.Write(w, status, "approval", data)
}

// decideOne answers POST /ui/approvals/{id}: a decision, the preview of a change, or a
// deferral.
func (p pages) decideOne(w http.ResponseWriter, r *http.Request) error {
	who, _ := authn.FromContext(r.Context())
	q, err := p.find(r, who)
	if err != nil {
		return err
	}
	if _, err := door.Form(r); err != nil {
		return err
	}
	do, data := r.PostForm.Get("decision"), onePage{Typed: strings.ReplaceAll(r.PostForm.Get("comment"), "\r\n", "\n")}
	again := func(status int, text string) error {
		data.Problem = approvals.Visible(text, 2000)
		return p.showOne(w, r, who, q, status, data)
	}
	switch {
	case do == editDecision && !itemOf(q, who).May:
		return problem(string(q.ID), &approvals.Conflict{Outcome: approvals.NotAllowed, Request: q, Detail: approvals.MayNot(q, personOf(who))})
	case do == editDecision:
		return p.previewEdit(w, r, who, q, data)
	case strings.HasPrefix(do, approvals.DeferAction):
		put, err := p.service.DeferBy(r.Context(), q, personOf(who), nil, do, data.Typed, approvals.DoorPage)
		text, ok := deferredOf(string(q.ID), put, err)
		if !ok {
			return again(door.From(problem(string(q.ID), err)).Status, text)
		}
		return p.back(w, r, q.ID, "deferred")
	}
	a, wrong := attempt(r.PostForm.Get, q)
	if wrong != "" {
		return again(http.StatusUnprocessableEntity, wrong)
	}
	x := pageAttempt(who)
	x.ID, x.Decision, x.Comment, x.Result, x.Args, x.Fields, x.Digest = q.ID, a.Decision, a.Comment, a.Result, a.Args, a.Fields, events.Digest(r.PostForm.Get("shown"))
	decided, repeated, err := p.service.Decide(r.Context(), x)
	text, ok := saidOf(string(q.ID), decided, repeated, err)
	if !ok {
		if c, conflict := conflictOf(err); conflict && c.Outcome != approvals.NotAllowed {
			q = c.Request
		}
		return again(door.From(problem(string(q.ID), err)).Status, text)
	}
	return p.back(w, r, q.ID, "decided")
}

// back leads to the request as it stands: a reload posts nothing again.
func (p pages) back(w http.ResponseWriter, r *http.Request, id events.ApprovalID, done string) error {
	http.Redirect(w, r, pagesPath+"/"+url.PathEscape(string(id))+"#"+done, http.StatusSeeOther)
	return nil
}

// previewEdit shows what the posted arguments change and offers the form that confirms
// exactly that.
func (p pages) previewEdit(w http.ResponseWriter, r *http.Request, who authn.Principal, q approvals.Request, data onePage) error {
	data.EditText = r.PostForm.Get("args")
	_, e, err := p.service.Preview(r.Context(), who.Namespace, q.ID, json.RawMessage(data.EditText))
	status := http.StatusOK
	switch {
	case errors.Is(err, approvals.ErrInvalid):
		data.Problem, data.EditText, status = approvals.Visible(err.Error(), 2000), "", http.StatusUnprocessableEntity
	case err != nil:
		return problem(string(q.ID), err)
	case len(e.Problems) > 0:
		data.Problem, status = approvals.Visible(approvals.UnfitArgs(e.Problems), 2000)+". Nothing was done.", http.StatusUnprocessableEntity
	case len(e.Changes) == 0:
		data.Message = "These are the arguments that are asked about: nothing would change."
	default:
		data.Changes, data.EditArgs, data.EditDigest, data.EditTitle = changeViews(e.Changes), string(e.Args), string(e.Digest), e.Text
		data.EditText = approvals.Visible(approvals.Indented(e.Args), 1<<20)
	}
	return p.showOne(w, r, who, q, status, data)
}

// pageAttempt is an attempt of who is signed in.
func pageAttempt(who authn.Principal) approvals.Attempt {
	x := attemptOf(who)
	x.Door = approvals.DoorPage
	return x
}

// saidOf says what became of a decision.
func saidOf(id string, q approvals.Request, repeated bool, err error) (text string, ok bool) {
	switch {
	case err != nil:
		p := door.From(problem(id, err))
		if p.Status == http.StatusServiceUnavailable {
			return unconfirmed, false
		}
		return p.Detail, false
	case !q.Ended():
		return "Your yes is counted (" + approvals.VotesText(q) + "); it waits for others.", true
	case repeated:
		return "It was decided so before: " + approvals.EndedText(q) + ".", true
	}
	return "Stored: " + approvals.EndedText(q) + ".", true
}

// deferredOf says what became of a deferral.
func deferredOf(id string, q approvals.Request, err error) (text string, ok bool) {
	if err != nil {
		return door.From(problem(id, err)).Detail, false
	}
	if until := approvals.DeferredText(q, time.Time{}); !q.DeferredUntil.IsZero() {
		return "It is " + until + ", and can be decided all the while.", true
	}
	return "It is in the inbox again.", true
}
