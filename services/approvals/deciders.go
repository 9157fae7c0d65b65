package approvals

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
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

// MayNot says why p may not decide r; empty when p may.
func MayNot(r Request, p Person) string {
	if r.Rule == nil {
		return ""
	}
	if r.Rule.RequesterDenied && r.Requester != "" && p.Name == r.Requester {
		return "you started the run, and its policy wants somebody else"
	}
	for _, d := range r.Rule.Deciders {
		if !among(d, p) {
			return fmt.Sprintf("it is decided by %s; you are %s", r.Rule, p)
		}
	}
	return ""
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
