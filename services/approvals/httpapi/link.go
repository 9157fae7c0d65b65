package httpapi

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

//go:embed link.html
var linkHTML string

//go:embed link.css
var linkCSS string

var linkPage = template.Must(template.New("link").Parse(linkHTML))

// linkPolicy lets the page have its own style, post to its own address, and
// nothing else.
var linkPolicy = func() string {
	sum := sha256.Sum256([]byte(linkCSS))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
}()

// maxForm bounds what the page posts.
const maxForm = 256 << 10

func registerLinks(d *door.Door, a api) {
	token := []*huma.Param{door.PathText("token", "as the message had it")}
	page := func(doc string) *huma.Response {
		return &huma.Response{Description: doc, Content: map[string]*huma.MediaType{"text/html": {Schema: &huma.Schema{Type: huma.TypeString}}}}
	}
	l := &links{api: a, limit: newLimiter(60, time.Minute)}
	d.RawOperation(huma.Operation{
		Method: http.MethodGet, Path: approvals.LinkPath + "{token}", Tags: []string{"approvals"}, OperationID: "show-linked-approval",
		Summary:     "Show the one request that a link is for",
		Description: "A page that works without JavaScript. It changes nothing, however often and by whomever it is opened: mail scanners and previews open links.",
		Parameters:  token, Responses: map[string]*huma.Response{"200": page("the request, and how it ended"), "404": page("there is no such link, or it was taken back"), "429": page("too many requests for one link")},
	}, door.Public, l.handler(l.show))
	d.RawOperation(huma.Operation{
		Method: http.MethodPost, Path: approvals.LinkPath + "{token}", Tags: []string{"approvals"}, OperationID: "decide-linked-approval",
		Summary:     "Decide the one request that a link is for, in the name of the person that it was sent to",
		Description: "Takes the form of the page. Who decides comes from the link, never from the form. 200: decided, now or before in the same way. 409: somebody else was first, or it ended; the page says who and when.",
		Parameters:  token, MaxBodyBytes: maxForm,
		RequestBody: &huma.RequestBody{Description: "the form of the page", Content: map[string]*huma.MediaType{"application/x-www-form-urlencoded": {Schema: &huma.Schema{}}}},
		Responses: map[string]*huma.Response{"200": page("decided"), "404": page("there is no such link"), "409": page("it had ended, and how"),
			"422": page("the decision cannot be taken, and why"), "429": page("too many requests for one link"), "503": page("not confirmed; sending it again is safe")},
	}, door.Public, l.handler(l.decide))
}

// links serves the pages of links.
type links struct {
	api
	limit  *limiter
	origin http.CrossOriginProtection
}

// view is what the page shows.
type view struct {
	CSS                         template.CSS
	Title, Message, Problem     string
	Votes                       string // how many of several have said yes
	Person                      string
	Request                     *approvals.Request
	Args, Question, Ended       string
	Expires                     string
	Open                        bool
	Deferred                    string // until when it is put off
	Spans                       []approvals.Span
	Choices                     []approvals.Choice // of an action, a doubt, or a question with choices
	Answers, Results, MayRemark bool
	Nonce                       string
	Shown                       string // the digest that the page shows
	EditText                    string // arguments that may be changed; empty: they may not
	Changed                     string // what a change would be, or was
	EditArgs, EditShown         string // of the form that confirms a change
	EditNonce                   string
	Form                        []formInput // what is filled in with a yes
}

func (l *links) handler(h func(http.ResponseWriter, *http.Request, string) (int, view)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), door.DefaultTimeout)
		defer cancel()
		token := r.PathValue("token")
		status, v := http.StatusTooManyRequests, view{Title: "Too many requests", Message: "Wait a minute and open the link again; nothing was done."}
		if sum := sha256.Sum256([]byte(token)); l.limit.allow(string(sum[:]), time.Now()) {
			status, v = h(w, r.WithContext(ctx), token)
		} else {
			w.Header().Set("Retry-After", "60")
		}
		v.CSS = template.CSS(linkCSS)
		var page bytes.Buffer
		if err := linkPage.Execute(&page, v); err != nil {
			door.Fail(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", linkPolicy)
		w.Header().Set("Referrer-Policy", "no-referrer") // the address is a secret
		w.Header().Set("X-Robots-Tag", "noindex, nofollow")
		w.WriteHeader(status)
		_, _ = w.Write(page.Bytes()) // the reader has gone: nobody to tell
	})
}

// show answers GET /decide/{token}; it changes nothing.
func (l *links) show(w http.ResponseWriter, r *http.Request, token string) (int, view) {
	link, q, err := l.service.Linked(r.Context(), token)
	if err != nil {
		return l.trouble(w, err)
	}
	if !approvals.MayRead(q, link.Who()) {
		return notYours()
	}
	l.service.Shown(r.Context(), link.Person, approvals.DoorLink, q)
	v := viewOf(token, link, q)
	l.offerEdit(r.Context(), &v, q)
	return http.StatusOK, v
}

// decide answers POST /decide/{token}.
func (l *links) decide(w http.ResponseWriter, r *http.Request, token string) (int, view) {
	if err := l.origin.Check(r); err != nil {
		return http.StatusForbidden, view{Title: "Not from here", Message: "This was sent from another site; nothing was done. Open the link in your message."}
	}
	link, q, err := l.service.Linked(r.Context(), token)
	if err != nil {
		return l.trouble(w, err)
	}
	if !approvals.MayRead(q, link.Who()) {
		return notYours()
	}
	if err := r.ParseForm(); err != nil {
		return http.StatusBadRequest, view{Title: "Not readable", Message: "The form could not be read; nothing was done. Open the link again."}
	}
	shown := r.PostForm.Get("shown")
	if !hmac.Equal([]byte(r.PostForm.Get("nonce")), []byte(nonceOf(token, shown))) {
		v := viewOf(token, link, q)
		v.Problem = "This did not come from the page of this link; nothing was done. Look again and decide."
		return http.StatusUnprocessableEntity, v
	}
	if r.PostForm.Get("decision") == editDecision {
		return l.preview(w, r, token, link, q)
	}
	if strings.HasPrefix(r.PostForm.Get("decision"), approvals.DeferAction) {
		return l.putOff(w, r, token, link, q)
	}
	a, problem := attempt(r.PostForm.Get, q)
	if problem == "" {
		a.Digest = events.Digest(shown)
		var decided approvals.Request
		decided, _, err = l.service.DecideLinked(r.Context(), token, a)
		switch c, conflict := errors.AsType[*approvals.Conflict](err); {
		case err == nil:
			v := viewOf(token, link, decided)
			v.Message = "Thank you. Your decision is stored and reaches the run by itself."
			if !decided.Ended() {
				v.Message = "Thank you. Your yes is counted (" + v.Votes + "); it waits for others."
			}
			return http.StatusOK, v
		case conflict && c.Outcome == approvals.NotAllowed:
			return http.StatusForbidden, view{Title: "Not yours to decide", Message: c.Error()}
		case conflict && c.Outcome != approvals.Unfit && c.Outcome != approvals.WrongKind && c.Outcome != approvals.NoComment:
			v := viewOf(token, link, c.Request)
			v.Problem = "Your click changed nothing: " + c.Error()
			return http.StatusConflict, v
		case conflict, errors.Is(err, approvals.ErrInvalid):
			problem = err.Error()
		default:
			return l.trouble(w, err)
		}
	}
	v := viewOf(token, link, q)
	l.offerEdit(r.Context(), &v, q)
	v.Problem, v.Form = problem, inputsOf(q, r.PostForm.Get)
	return http.StatusUnprocessableEntity, v
}

// notYours is all that somebody learns who may not decide.
func notYours() (int, view) {
	return http.StatusForbidden, view{Title: "Not yours to decide", Message: "This waits for other people; nothing was done."}
}

func (l *links) trouble(w http.ResponseWriter, err error) (int, view) {
	if errors.Is(err, approvals.ErrNotFound) {
		return http.StatusNotFound, view{Title: "There is nothing here", Message: "This link leads nowhere: it is mistyped, too old, or was taken back."}
	}
	w.Header().Set("Retry-After", "5")
	return http.StatusServiceUnavailable, view{Title: "Not now", Message: "This could not be confirmed. Send it again: a decision is made once, however often it is sent."}
}

// attempt reads the form.
func attempt(field func(string) string, q approvals.Request) (a approvals.Attempt, problem string) {
	a = approvals.Attempt{Decision: field("decision"), Comment: strings.ReplaceAll(field("comment"), "\r\n", "\n")}
	result := strings.TrimSpace(field("result"))
	if i, ok := strings.CutPrefix(a.Decision, approvals.ChoiceAction); ok {
		a.Decision = events.Answered
		for n, c := range q.Question.Choices {
			if approvals.ChoiceAction+i == approvals.ChoiceAction+itoa(n) {
				a.Result, _ = events.Marshal(c)
			}
		}
		return a, ""
	}
	switch {
	case a.Decision == events.Approve && field("args") != "":
		a.Args = json.RawMessage(field("args"))
	case a.Decision == events.Approve && len(q.Form()) > 0:
		a.Fields = fieldsOf(q, field)
	case a.Decision == "":
		return a, "Choose what you decide."
	case a.Decision == events.Answered && q.Question != nil && len(q.Question.Schema) == 0:
		a.Result, _ = events.Marshal(strings.ReplaceAll(field("result"), "\r\n", "\n"))
	case (a.Decision == events.Answered || a.Decision == events.Happened) && result != "":
		if !json.Valid([]byte(result)) {
			return a, "The result is not JSON."
		}
		a.Result = json.RawMessage(result)
	}
	return a, ""
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }

// nonceOf proves that a form came from the page of its link, as it was shown.
func nonceOf(token, shown string) string {
	m := hmac.New(sha256.New, []byte(token))
	m.Write([]byte("holdfast decide\n" + shown))
	return hex.EncodeToString(m.Sum(nil))
}

func viewOf(token string, l approvals.Link, q approvals.Request) view {
	v := view{
		Title: approvals.Visible(q.Title(), 300), Person: l.Person, Request: &q, Ended: approvals.EndedText(q),
		Args: approvals.Visible(approvals.Indented(q.Args), 1<<20), Expires: q.ExpiresAt.UTC().Format("2006-01-02 15:04:05 UTC"),
		Open: !q.Ended() && !q.Late(time.Now()), Shown: string(q.Digest), Nonce: nonceOf(token, string(q.Digest)),
	}
	if !v.Open && !q.Ended() {
		v.Ended = "expired at " + v.Expires + ": nobody decided in time"
	}
	v.Deferred, v.Spans = approvals.Visible(approvals.DeferredText(q, time.Now()), 300), approvals.SpansOf(q, l.Who(), l.Digest, time.Now())
	v.Votes = approvals.Visible(approvals.VotesText(q), 2000)
	v.Changed = approvals.Visible(approvals.ChangesText(q.Changes()), 1<<20)
	v.Choices, v.Form = approvals.ChoicesOf(q), inputsOf(q, func(string) string { return "" })
	v.MayRemark = q.Kind != events.ApprovalQuestion
	v.Results = q.Kind == events.ApprovalDoubt
	if q.Question != nil {
		v.Question = approvals.Visible(q.Question.Text, 1<<20)
		v.Answers = len(q.Question.Choices) == 0
	}
	return v
}
