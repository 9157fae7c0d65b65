package door

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/web"
)

// Page adds a page for people. It is Raw with the time that an operation has, and
// what h returns as an error is answered by Fail.
func (d *Door) Page(pattern string, need authn.Role, h func(http.ResponseWriter, *http.Request) error) {
	d.raw(pattern, Route{Role: need, timed: true}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			Fail(w, r, err)
		}
	}))
}

// FrameOf is what the page that answers r shows around its own part: who reads it,
// the entry of the menu that its path belongs to, and the menu's numbers.
func FrameOf(r *http.Request, title string) web.Frame {
	f := frameOf(r, title)
	d, ok := r.Context().Value(doorKey{}).(*Door)
	if !ok || d.cfg.Counts == nil || f.Name == "" {
		return f
	}
	ctx, cancel := context.WithTimeout(r.Context(), countsWithin)
	defer cancel()
	if counts, err := d.cfg.Counts(ctx, f.Namespace); err == nil { // else the script brings them
		f.Counts = counts
	}
	return f
}

// countsWithin bounds how long a page waits for the numbers of its menu.
const countsWithin = 2 * time.Second

func frameOf(r *http.Request, title string) web.Frame {
	f := web.Frame{Title: title, Here: web.SectionOf(r.URL.Path).Here, At: time.Now().UTC()}
	if who, ok := authn.FromContext(r.Context()); ok {
		f.Namespace, f.Name, f.Role = who.Namespace, who.Name, who.Role.String()
	}
	return f
}

// readByPeople reports whether the answer of r is for a browser's window: the path is
// that of a page, and its sender takes HTML.
func readByPeople(r *http.Request) bool {
	return (r.URL.Path == "/" || strings.HasPrefix(r.URL.Path, "/ui/")) && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// refusalPage says to a person what the problem document says to a program.
type refusalPage struct {
	web.Frame
	Status    int
	Detail    string
	Places    []ProblemError
	Next      string // what can be done now
	RequestID string
	SignIn    string // where; empty when that is of no use
	Again     string // the same address; empty when it was no GET, or will not change
	Back      string
	BackTo    string
}

// answer sends p to whoever sent r: a page where people read it, else the document.
func (d *Door) answer(w http.ResponseWriter, r *http.Request, p *Problem) {
	if !readByPeople(r) {
		p.write(w)
		return
	}
	frame := frameOf(r, p.Title)
	if p.Status < http.StatusInternalServerError { // what is away is not asked for numbers
		frame = FrameOf(r, p.Title)
	}
	page := refusalPage{
		Frame: frame, Status: p.Status, Detail: p.Detail, Places: p.Errors, Next: nextOf(p), RequestID: p.RequestID,
	}
	page.Back, page.BackTo = backOf(r)
	if p.Status == http.StatusUnauthorized && d != nil && d.cfg.SignIn != "" {
		page.SignIn = d.signIn(r)
		if r.Method != http.MethodGet { // what was sent is not sent again by signing in
			page.SignIn = d.cfg.SignIn + "?" + url.Values{ReturnParameter: {page.Back}}.Encode()
		}
	}
	if p.Status >= http.StatusInternalServerError && r.Method == http.MethodGet {
		page.Again = LocalPath(r.URL.RequestURI())
	}
	h := w.Header()
	if h.Get("X-Content-Type-Options") == "" { // no door stands before: the edge
		setHeaders(h, p.RequestID)
	}
	for k, v := range p.GetHeaders() {
		h[k] = v
	}
	if web.Write(w, p.Status, "problem", page) != nil {
		p.write(w)
	}
}

// nextOf is what somebody who reads p can do.
func nextOf(p *Problem) string {
	switch {
	case p.retryAfter > 0:
		return "Try again in " + strconv.Itoa(max(1, int(p.retryAfter.Round(time.Second).Seconds()))) + " s."
	case p.Code == CodeCrossOrigin:
		return "Open the page here and send it from there."
	}
	switch p.Status {
	case http.StatusUnauthorized:
		return "Sign in and do it again."
	case http.StatusForbidden:
		return "Ask somebody who has that role, or turn to another of your roles on the page of your account."
	case http.StatusNotFound:
		return "Look whether the address is whole. What another namespace has is not found either."
	case http.StatusMethodNotAllowed:
		return "Go back and use what the page offers."
	case http.StatusConflict:
		return "Go back and look at how it stands now."
	case http.StatusGone:
		return "What was deleted does not come back."
	case http.StatusServiceUnavailable:
		return "Try again in a moment."
	}
	if p.Status >= http.StatusInternalServerError {
		return "Try again; if it stays so, whoever runs the server finds the request id in its log."
	}
	return "Go back, change what is wrong and send it again."
}

// backOf is the page that r was sent from, if it is one of ours and another, else the
// list that r's path belongs to.
func backOf(r *http.Request) (path, title string) {
	section := web.SectionOf(r.URL.Path)
	from, err := url.Parse(r.Referer())
	if err == nil && from.Host == r.Host && from.Path != "" && !(r.Method == http.MethodGet && from.RequestURI() == r.URL.RequestURI()) {
		if to := LocalPath(from.RequestURI()); to == from.RequestURI() && !strings.HasPrefix(to, "/ui/sign-in") {
			return to, "the page before"
		}
	}
	if section.Path == r.URL.Path && section.Path != "/" {
		section = web.SectionOf("/")
	}
	return section.Path, section.Title
}
