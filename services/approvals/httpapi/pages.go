package httpapi

import (
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

// pages serves the inbox of the console and the page of one request. Both work without
// script; who reads and decides comes from the session.
type pages struct{ api }

const pagesPath = "/ui/approvals"

func registerPages(d *door.Door, a api) {
	p := pages{a}
	d.Page("GET "+pagesPath, authn.Viewer, p.inbox)
	d.Page("POST "+pagesPath, authn.Approver, p.decideTicked)
	d.Page("GET "+pagesPath+"/{id}", authn.Viewer, p.one)
	d.Page("POST "+pagesPath+"/{id}", authn.Approver, p.decideOne)
	d.Page("POST /ui/notices/{id}/resend", authn.Operator, p.resendNotice)
}

// itemView is one request as its reader sees it.
type itemView struct {
	ID, Digest          string
	Title, Because      string
	Args, Key           string
	RunID               string
	Hidden              bool   // others decide it, and what it is about is left out
	May                 bool   // the reader may decide it
	Tick                bool   // together with others
	Deciders, MayNot    string // who may, and why the reader may not
	Votes, Deferred     string
	CreatedAt           time.Time
	ExpiresAt, RemindAt time.Time
	NeedsComment        bool
}

func itemOf(r approvals.Request, who authn.Principal) itemView {
	person := personOf(who)
	v := itemView{
		ID: string(r.ID), Title: approvals.Visible(r.Title(), 300), RunID: string(r.RunID), CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt, RemindAt: r.RemindAt,
		Votes: approvals.Visible(approvals.VotesText(r), 2000), Deferred: approvals.DeferredText(r, time.Now()),
		MayNot: approvals.MayNot(r, person), Hidden: !approvals.MayRead(r, person),
	}
	v.May = v.MayNot == "" && who.Role.Allows(authn.Approver)
	if r.Rule != nil {
		v.Deciders = r.Rule.String()
	}
	switch r.Kind {
	case events.ApprovalDoubt:
		v.Because = "Did it happen? The outcome of " + r.Tool + " is not known. Asked by " + r.Agent + "."
	case events.ApprovalQuestion:
		v.Because = r.Agent + " asks."
	default:
		v.Because = "Asked by " + r.Agent + "."
	}
	if v.Hidden {
		v.Title = r.Agent + " asks about " + r.Tool
		return v
	}
	if r.Question != nil {
		v.Title = approvals.Visible(r.Question.Text, 1000)
	}
	v.Digest, v.Key, v.NeedsComment = string(r.Digest), approvals.Visible(r.Key, 300), r.NeedsComment()
	v.Args = approvals.Visible(approvals.Indented(r.Args), 20_000)
	v.Tick = v.May && r.Kind == events.ApprovalAction
	return v
}
