package spec

import (
	"fmt"
	"regexp"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Whether the principal that started a run may decide what the run asks.
const (
	RequesterAllowed = "allowed"
	RequesterDenied  = "denied"
)

// Whether a decision must say why.
const (
	CommentOptional = "optional"
	CommentRequired = "required"
)

// Bounds of a quorum.
const (
	minQuorum = 2
	maxQuorum = 20
)

// Rule says who may decide, beside the right to decide at all, and how.
type Rule struct {
	Deciders  *Deciders // nil: every approver
	Requester string    // RequesterDenied (default) or RequesterAllowed
	Comment   string    // CommentOptional (default) or CommentRequired
	Quorum    int64     // how many must say yes; 0: one
}

// Deciders are the people that may decide: one of the users, who is in one of the
// groups, or has one of the roles.
type Deciders struct {
	Users  []string `json:"users,omitempty"`  // names of tokens and of people of channels
	Groups []string `json:"groups,omitempty"` // of tokens and of people of channels
	Roles  []string `json:"roles,omitempty"`  // approver or admin
}

var (
	userPattern  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 ._@+-]{0,119}$`)
	groupPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@+-]{0,62}$`)
	// deciderRoles are the roles that may decide.
	deciderRoles = []string{"approver", "admin"}
)

// MaxGroups is how many groups a person may be in.
const MaxGroups = 50

// ValidGroup reports whether s may name a group of people.
func ValidGroup(s string) bool { return groupPattern.MatchString(s) }

// groups checks the groups of a person or of deciders.
func (d *decoder) groups(s spot, groups []string) {
	d.each(s, groups, MaxGroups, func(at spot, g string) {
		if !ValidGroup(g) {
			d.fail(at, "%q is not a group: 1 to 63 of A-Z a-z 0-9 . _ @ + -, starting with a letter or digit", shorten(g))
		}
	})
}

// each checks a list whose items stand once.
func (d *decoder) each(s spot, list []string, limit int, check func(spot, string)) {
	if len(list) > limit {
		d.fail(s, "has %d items; at most %d are allowed", len(list), limit)
		return
	}
	for i, v := range list {
		check(s.at(i), v)
		if contains(list[:i], v) {
			d.fail(s.at(i), "%q stands here twice", shorten(v))
		}
	}
}

func (r *Rule) fill() {
	if r.Requester == "" {
		r.Requester = RequesterDenied
	}
	if r.Comment == "" {
		r.Comment = CommentOptional
	}
}

func (r *Rule) check(d *decoder, s spot) {
	d.oneOf(s.at("requester"), r.Requester, RequesterAllowed, RequesterDenied)
	d.oneOf(s.at("comment"), r.Comment, CommentOptional, CommentRequired)
	if s.n.get("quorum") != nil && (r.Quorum < minQuorum || r.Quorum > maxQuorum) {
		d.fail(s.at("quorum"), "is %d, want %d to %d people; leave it out when one decides", r.Quorum, minQuorum, maxQuorum)
	}
	if p := r.Deciders; p != nil {
		at := s.at("deciders")
		d.require(at, len(p.Users)+len(p.Groups)+len(p.Roles) > 0, "at least one of users, groups and roles; leave it out when every approver may decide")
		d.each(at.at("users"), p.Users, 100, func(at spot, u string) {
			if !userPattern.MatchString(u) {
				d.fail(at, "%q is not the name of a token or of a person of a channel", shorten(u))
			}
		})
		d.groups(at.at("groups"), p.Groups)
		d.each(at.at("roles"), p.Roles, len(deciderRoles), func(at spot, role string) { d.oneOf(at, role, deciderRoles...) })
	}
}

// String is the rule as BindDigest takes it.
func (r *Rule) String() string {
	raw, err := events.Marshal(mergeRules(r))
	if err != nil {
		panic(fmt.Sprintf("encode a rule: %v", err)) // what was parsed can be written
	}
	return string(raw)
}

// mergeRules is what holds when all of the rules do; nil when there are none.
func mergeRules(rules ...*Rule) *events.DecisionRule {
	var out *events.DecisionRule
	for _, r := range rules {
		if r == nil {
			continue
		}
		if out == nil {
			out = &events.DecisionRule{}
		}
		if p := r.Deciders; p != nil {
			out.Deciders = append(out.Deciders, events.Deciders{Users: p.Users, Groups: p.Groups, Roles: p.Roles})
		}
		out.RequesterDenied = out.RequesterDenied || r.Requester != RequesterAllowed
		out.CommentRequired = out.CommentRequired || r.Comment == CommentRequired
		out.Quorum = max(out.Quorum, r.Quorum)
	}
	return out
}
