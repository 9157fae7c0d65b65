package httpapi

import (
	"fmt"
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

// Bounds of the inbox: groups of a page, requests of a group among others and alone.
const (
	pageGroups  = 10
	pageMembers = 10
	pageGroup   = 50
)

type inboxPage struct {
	web.Frame
	By, Group string
	Deferred  bool
	Groups    []groupView
	Next      string // the next page
	Done      []doneView
	Problem   string
}

type groupView struct {
	ID, Title, Tag string
	Count          int
	Oldest, Expiry time.Time
	Items          []itemView
	More           string // all of it
	Proposal       string // id of what a grant would be like
	Approved       int
	Ticks          bool // something can be ticked
	NeedsComment   bool
	Spans          []approvals.Span
}

// doneView is what became of one of many.
type doneView struct {
	ID, Title, Text string
	OK              bool
}

// inbox answers GET /ui/approvals.
func (p pages) inbox(w http.ResponseWriter, r *http.Request) error {
	who, _ := authn.FromContext(r.Context())
	return p.showInbox(w, r, who, http.StatusOK, inboxPage{})
}

func (p pages) showInbox(w http.ResponseWriter, r *http.Request, who authn.Principal, status int, data inboxPage) error {
	q := r.URL.Query()
	data.Frame, data.By, data.Group, data.Deferred = door.FrameOf(r, "Approvals"), q.Get("by"), q.Get("group"), q.Get("deferred") != ""
	var err error
	switch {
	case data.Deferred:
		err = p.putOffs(r, who, &data)
	case data.Group != "":
		err = p.group(r, who, &data)
	default:
		err = p.groups(r, who, &data)
	}
	if err != nil {
		return err
	}
	return web.Write(w, status, "approvals", data)
}

// groups fills data with what waits in groups, the next to expire first.
func (p pages) groups(r *http.Request, who authn.Principal, data *inboxPage) error {
	switch data.By {
	case approvals.ByFlow, approvals.ByAgent, approvals.ByTool, approvals.BySimilarity:
	default:
		data.By = approvals.ByFlow
	}
	f := approvals.GroupFilter{Namespace: who.Namespace, By: data.By, Limit: pageGroups + 1}
	var after approvals.GroupPosition
	if ok, err := door.DecodeCursor(r.URL.Query().Get("cursor"), &after); err != nil {
		return err
	} else if ok {
		f.After = &after
	}
	found, err := p.service.Groups(r.Context(), f)
	if err != nil {
		return err
	}
	cut := door.NewPage(found, pageGroups, func(g approvals.Group) any {
		return approvals.GroupPosition{NextExpiry: g.NextExpiry, Value: g.Key.Value}
	})
	if cut.NextCursor != "" {
		data.Next = pagesPath + "?" + url.Values{"by": {data.By}, "cursor": {cut.NextCursor}}.Encode()
	}
	for _, g := range cut.Items {
		members, err := p.service.Members(r.Context(), who.Namespace, g.Key, time.Time{}, nil, pageMembers)
		if err != nil {
			return err
		}
		v := p.viewGroup(r, who, len(data.Groups), groupTitle(g), members)
		v.Count, v.Oldest, v.Expiry = g.Count, g.Oldest, g.NextExpiry
		if len(members) < g.Count {
			v.More = pagesPath + "?" + url.Values{"group": {g.Key.String()}}.Encode()
		}
		if g.Approved > 0 && approvals.MayRead(g.Sample, personOf(who)) {
			v.Proposal, v.Approved = string(g.Sample.ID), g.Approved
		}
		data.Groups = append(data.Groups, v)
	}
	return nil
}

// group fills data with one group.
func (p pages) group(r *http.Request, who authn.Principal, data *inboxPage) error {
	k, err := approvals.ParseGroup(data.Group)
	if err != nil {
		return invalid("query.group", err.Error())
	}
	data.By = k.By
	var before *approvals.Position
	var at approvals.Position
	if ok, err := door.DecodeCursor(r.URL.Query().Get("cursor"), &at); err != nil {
		return err
	} else if ok {
		before = &at
	}
	found, err := p.service.Members(r.Context(), who.Namespace, k, time.Time{}, before, pageGroup+1)
	if err != nil {
		return err
	}
	p.fill(r, who, data, found, url.Values{"group": {data.Group}}, func(first approvals.Request) string {
		return groupTitle(approvals.Group{Key: k, Sample: first})
	})
	return nil
}

// putOffs fills data with what was put off.
func (p pages) putOffs(r *http.Request, who authn.Principal, data *inboxPage) error {
	f := approvals.Filter{Namespace: who.Namespace, State: approvals.StatePending, Deferred: approvals.DeferredOnly, Limit: pageGroup + 1}
	var before approvals.Position
	if ok, err := door.DecodeCursor(r.URL.Query().Get("cursor"), &before); err != nil {
		return err
	} else if ok {
		f.Before = &before
	}
	found, err := p.service.List(r.Context(), f)
	if err != nil {
		return err
	}
	p.fill(r, who, data, found, url.Values{"deferred": {"only"}}, func(approvals.Request) string { return "Put off" })
	return nil
}

func (p pages) fill(r *http.Request, who authn.Principal, data *inboxPage, found []approvals.Request, query url.Values, title func(approvals.Request) string) {
	cut := door.NewPage(found, pageGroup, func(r approvals.Request) any { return approvals.Position{CreatedAt: r.CreatedAt, ID: r.ID} })
	if cut.NextCursor != "" {
		query.Set("cursor", cut.NextCursor)
		data.Next = pagesPath + "?" + query.Encode()
	}
	if len(cut.Items) > 0 {
		data.Groups = []groupView{p.viewGroup(r, who, 0, title(cut.Items[0]), cut.Items)}
	}
}

// viewGroup shows members to who, and records that.
func (p pages) viewGroup(r *http.Request, who authn.Principal, n int, title string, members []approvals.Request) groupView {
	g := groupView{ID: fmt.Sprintf("g%d", n), Title: title, Count: len(members)}
	var shown []approvals.Request
	for _, m := range members {
		shown = append(shown, m.SeenBy(personOf(who)))
		item := itemOf(m, who)
		g.Items = append(g.Items, item)
		g.Ticks, g.NeedsComment = g.Ticks || item.Tick, g.NeedsComment || item.Tick && item.NeedsComment
		if item.Tick {
			for _, s := range approvals.SpansOf(m, personOf(who), nil, time.Now()) {
				g.addSpan(s)
			}
		}
		if g.Oldest.IsZero() || m.CreatedAt.Before(g.Oldest) {
			g.Oldest = m.CreatedAt
		}
		if g.Expiry.IsZero() || m.ExpiresAt.Before(g.Expiry) {
			g.Expiry = m.ExpiresAt
		}
	}
	p.service.Shown(r.Context(), who.Name, approvals.DoorPage, shown...)
	return g
}

func (g *groupView) addSpan(s approvals.Span) {
	for _, have := range g.Spans {
		if have.Action == s.Action {
			return
		}
	}
	g.Spans = append(g.Spans, s)
}

func groupTitle(g approvals.Group) string {
	name := approvals.Visible(g.Key.Value, 200)
	switch g.Key.By {
	case approvals.ByAgent:
		return "Of agent " + name
	case approvals.ByTool:
		return "About " + name
	case approvals.BySimilarity:
		return "Alike: " + approvals.Visible(g.Sample.Tool, 200)
	}
	if name == "" {
		return "Outside of flows"
	}
	return "In flow " + name
}

// decideTicked answers POST /ui/approvals: each of what was ticked is decided by itself,
// with the digest that was shown.
func (p pages) decideTicked(w http.ResponseWriter, r *http.Request) error {
	who, _ := authn.FromContext(r.Context())
	if _, err := door.Form(r); err != nil {
		return err
	}
	do, comment := r.PostForm.Get("do"), strings.ReplaceAll(r.PostForm.Get("comment"), "\r\n", "\n")
	ticked := r.PostForm["item"]
	var data inboxPage
	switch {
	case len(ticked) == 0:
		data.Problem = "Nothing was ticked, so nothing was done. Tick what you decide, then choose."
	case len(ticked) > approvals.MaxMany:
		data.Problem = fmt.Sprintf("%d are ticked; at most %d are decided at once, and nothing was done.", len(ticked), approvals.MaxMany)
	case do == events.Approve || do == events.Reject:
		data.Done = p.decideAll(r, who, do, comment, ticked)
	case do == "defer":
		data.Done = p.deferAll(r, who, r.PostForm.Get("span"), comment, ticked)
	default:
		data.Problem = "Choose what to do with what you ticked; nothing was done."
	}
	status := http.StatusOK
	if data.Problem != "" {
		status = http.StatusUnprocessableEntity
	}
	return p.showInbox(w, r, who, status, data)
}

func (p pages) decideAll(r *http.Request, who authn.Principal, do, comment string, ticked []string) (out []doneView) {
	var attempts []approvals.Attempt
	for _, t := range ticked {
		id, digest, _ := strings.Cut(t, " ")
		if !events.ValidToken(id) || digest == "" {
			continue // no form of ours
		}
		x := pageAttempt(who)
		x.ID, x.Digest, x.Decision, x.Comment = events.ApprovalID(id), events.Digest(digest), do, comment
		attempts = append(attempts, x)
	}
	for i, d := range p.service.DecideMany(r.Context(), attempts) {
		text, ok := saidOf(string(attempts[i].ID), d.Request, d.Repeated, d.Err)
		out = append(out, doneOf(attempts[i].ID, d.Request, who, text, ok))
	}
	return out
}

func (p pages) deferAll(r *http.Request, who authn.Principal, span, comment string, ticked []string) (out []doneView) {
	for _, t := range ticked {
		id, _, _ := strings.Cut(t, " ")
		if !events.ValidToken(id) {
			continue
		}
		q, err := p.service.Get(r.Context(), who.Namespace, events.ApprovalID(id))
		if err == nil {
			q, err = p.service.DeferBy(r.Context(), q, personOf(who), nil, span, comment, approvals.DoorPage)
		}
		text, ok := deferredOf(id, q, err)
		out = append(out, doneOf(events.ApprovalID(id), q, who, text, ok))
	}
	return out
}

func doneOf(id events.ApprovalID, q approvals.Request, who authn.Principal, text string, ok bool) doneView {
	v := doneView{ID: string(id), Title: "Request " + string(id), Text: text, OK: ok}
	if q.ID != "" {
		v.Title = itemOf(q, who).Title
	}
	return v
}
