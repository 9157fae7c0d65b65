package authn

import "fmt"

// Role is what a token may do. Roles are sets of rights and not a ladder:
// an operator may not decide approvals and an approver may not start runs. The
// zero Role allows nothing and is allowed nothing.
type Role int

// Roles. Viewer reads. Operator is Viewer and may start, cancel, pause, resume
// and trigger. Approver is Viewer and may decide approvals and doubts. Admin
// may do everything, also apply resources, raise budgets, settle effects and
// manage tokens.
const (
	Viewer Role = iota + 1
	Operator
	Approver
	Admin
)

// Roles lists every role, weakest first.
func Roles() []Role { return []Role{Viewer, Operator, Approver, Admin} }

// Allows reports whether a principal with role r may do what needs the role need.
func (r Role) Allows(need Role) bool {
	switch {
	case !r.valid() || !need.valid():
		return false
	case r == Admin, r == need:
		return true
	}
	return need == Viewer
}

func (r Role) valid() bool { return r >= Viewer && r <= Admin }

// String is the name of the role as tokens and documents spell it.
func (r Role) String() string {
	switch r {
	case Viewer:
		return "viewer"
	case Operator:
		return "operator"
	case Approver:
		return "approver"
	case Admin:
		return "admin"
	}
	return fmt.Sprintf("role(%d)", int(r))
}

// ParseRole reads the name of a role.
func ParseRole(s string) (Role, error) {
	for _, r := range Roles() {
		if r.String() == s {
			return r, nil
		}
	}
	return 0, fmt.Errorf("role %q is unknown: use viewer, operator, approver or admin", s)
}
