package approvals

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Person is who wants to decide, by a verified identity: a token, or one of a
// channel's people.
type Person struct {
	Name   string
	Groups []string
	Role   string // as authn spells it; people of a channel are approvers of what is asked there
}

// roleApprover is the role of a channel's people.
const roleApprover = "approver"

// personOf is one of a channel's people.
func personOf(p spec.Person) Person {
	return Person{Name: p.Name, Groups: p.Groups, Role: roleApprover}
}

// MayNot says why p may not decide r; empty when p may.
func MayNot(r Request, p Person) string {
	if r.Rule == nil {
		return ""
	}
	if r.Rule.RequesterDenied && r.Requester != "" && p.Name == r.Requester {
		return "you started the run, and its policy wants somebody else"
	}
	for i := range r.Rule.Deciders {
		if !r.meets(i, p) {
			return fmt.Sprintf("it is decided by %s; you are %s", r.Rule, p)
		}
	}
	return ""
}

// NeedsComment reports whether who decides r must say why. An answer says it itself.
func (r Request) NeedsComment() bool {
	return r.Kind != events.ApprovalQuestion && r.Rule != nil && r.Rule.CommentRequired
}

// says reports whether a comment has anything to read in it.
func says(comment string) bool {
	return strings.ContainsFunc(comment, func(c rune) bool { return unicode.IsGraphic(c) && !unicode.IsSpace(c) })
}

// MayRead reports whether p may read what r is about: an admin, and who may decide, be
// it that p started the run.
func MayRead(r Request, p Person) bool {
	if r.Rule == nil || p.Role == "admin" {
		return true
	}
	for i := range r.Rule.Deciders {
		if !r.meets(i, p) {
			return false
		}
	}
	return true
}

// SeenBy is r as p may see it: who may not read it learns that it waits, for whom, and
// how it ended, and nothing of what it is about.
func (r Request) SeenBy(p Person) Request {
	if MayRead(r, p) {
		return r
	}
	return Request{
		ID: r.ID, Namespace: r.Namespace, Kind: r.Kind, RunID: r.RunID, CallID: r.CallID, Agent: r.Agent, Tool: r.Tool, Hidden: true,
		Summary: fmt.Sprintf("%s asks about %s", r.Agent, r.Tool), Channel: r.Channel, Rule: r.Rule, Requester: r.Requester,
		State: r.State, Decision: r.Decision, DecidedBy: r.DecidedBy, Door: r.Door, CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt,
		DecidedAt: r.DecidedAt, ValidUntil: r.ValidUntil, UnusedAt: r.UnusedAt, AnnouncedAt: r.AnnouncedAt, LandedAt: r.LandedAt,
		DeferredUntil: r.DeferredUntil, DeferredBy: r.DeferredBy, RemindAt: r.RemindAt, Overdue: r.Overdue, Escalated: r.Escalated, EscalateAt: r.EscalateAt,
	}
}

func among(d events.Deciders, p Person) bool {
	return slices.Contains(d.Users, p.Name) || slices.Contains(d.Roles, p.Role) ||
		slices.ContainsFunc(p.Groups, func(g string) bool { return slices.Contains(d.Groups, g) })
}

// String names the person with role and groups.
func (p Person) String() string {
	s := fmt.Sprintf("%s (%s", p.Name, p.Role)
	if len(p.Groups) > 0 {
		s += ", in " + strings.Join(p.Groups, ", ")
	}
	return s + ")"
}
