package spec

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"time"

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

// What becomes of a request that nobody has decided in time.
const (
	AtExpiryDeny = "deny"              // it ends, and the call is not made
	AtExpiryKeep = events.AtExpiryKeep // it waits on, and is overdue
	AtExpiryEnd  = events.AtExpiryEnd  // it ends, and its run with it
)

// Bounds of a quorum.
const (
	minQuorum = 2
	maxQuorum = 20
)

// Rule says who may decide, beside the right to decide at all, how, and what follows
// while nobody does.
type Rule struct {
	Deciders  *Deciders // nil: every approver
	Requester string    // RequesterDenied (default) or RequesterAllowed (default beside nothing but times)
	Comment   string    // CommentOptional (default) or CommentRequired
	Quorum    int64     // how many must say yes; 0: one
	Remind    Reminders
	Escalate  Escalation
	Form      Form      // of a tool: what a person fills in who says yes
	Calendar  *Calendar // which time counts; nil: all of it, unless the other policy says
	AtExpiry  string    // AtExpiryDeny, AtExpiryKeep or AtExpiryEnd; empty: as other rules say, else AtExpiryDeny
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

// Reminders say how long after it was asked the channel of a request that still waits
// is told again.
type Reminders []Duration

// Bounds of Reminders.
const (
	maxReminders = 10
	minReminder  = time.Minute
	maxReminder  = 90 * 24 * time.Hour
)

func (x Reminders) check(d *decoder, s spot) {
	d.require(s, len(x) > 0, "at least one time, like [1h, 4h]")
	if len(x) > maxReminders {
		d.fail(s, "has %d items; at most %d are allowed", len(x), maxReminders)
		return
	}
	for i, after := range x {
		switch {
		case d.failed[s.at(i).path]:
		case after.Std() < minReminder || after.Std() > maxReminder:
			d.fail(s.at(i), "%s is outside %s to %s", after, Duration(minReminder), Duration(maxReminder))
		case i > 0 && after <= x[i-1]:
			d.fail(s.at(i), "%s is not after %s; write them in ascending order", after, x[i-1])
		}
	}
}

// before checks that people are told again while a request still waits.
func (x Reminders) before(d *decoder, s spot, expiry Duration) {
	for i, after := range x {
		if after >= expiry && !d.failed[s.at(i).path] {
			d.fail(s.at(i), "%s is not before the request expires, after %s", after, expiry)
		}
	}
}

func (r *Rule) fill() {
	switch {
	case r.Requester != "":
	case r.Deciders == nil && r.Comment == "" && r.Quorum == 0 && r.Form == nil: // times change nothing about who may decide
		r.Requester = RequesterAllowed
	default:
		r.Requester = RequesterDenied
	}
	if r.Comment == "" {
		r.Comment = CommentOptional
	}
	r.Calendar.fill()
}

func (r *Rule) check(d *decoder, s spot) {
	d.oneOf(s.at("requester"), r.Requester, RequesterAllowed, RequesterDenied)
	d.oneOf(s.at("comment"), r.Comment, CommentOptional, CommentRequired)
	if s.n.get("quorum") != nil && (r.Quorum < minQuorum || r.Quorum > maxQuorum) {
		d.fail(s.at("quorum"), "is %d, want %d to %d people; leave it out when one decides", r.Quorum, minQuorum, maxQuorum)
	}
	if s.n.get("atExpiry") != nil {
		d.oneOf(s.at("atExpiry"), r.AtExpiry, AtExpiryDeny, AtExpiryKeep, AtExpiryEnd)
	}
	if s.n.get("remind") != nil {
		r.Remind.check(d, s.at("remind"))
	}
	r.Calendar.check(d, s.at("calendar"))
	if s.n.get("escalate") != nil {
		r.Escalate.check(d, s.at("escalate"), r.Deciders != nil)
	}
	if p := r.Deciders; p != nil {
		p.check(d, s.at("deciders"), "leave it out when every approver may decide")
	}
}

func (p *Deciders) check(d *decoder, at spot, otherwise string) {
	d.require(at, len(p.Users)+len(p.Groups)+len(p.Roles) > 0, "at least one of users, groups and roles; "+otherwise)
	d.each(at.at("users"), p.Users, 100, func(at spot, u string) {
		if !userPattern.MatchString(u) {
			d.fail(at, "%q is not the name of a token or of a person of a channel", shorten(u))
		}
	})
	d.groups(at.at("groups"), p.Groups)
	d.each(at.at("roles"), p.Roles, len(deciderRoles), func(at spot, role string) { d.oneOf(at, role, deciderRoles...) })
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
	atExpiry := ""
	for _, r := range rules {
		if r == nil {
			continue
		}
		if out == nil {
			out = &events.DecisionRule{}
		}
		if p := r.Deciders; p != nil {
			out.Deciders = append(out.Deciders, p.event())
		}
		out.RequesterDenied = out.RequesterDenied || r.Requester != RequesterAllowed
		out.CommentRequired = out.CommentRequired || r.Comment == CommentRequired
		out.Quorum = max(out.Quorum, r.Quorum)
		atExpiry = stricter(atExpiry, r.AtExpiry)
		if out.Form == nil {
			out.Form = r.Form.events(nil)
		}
		if out.Calendar == nil && r.Calendar != nil {
			out.Calendar = r.Calendar.event()
		}
		out.Escalate = append(out.Escalate, r.Escalate.events(len(out.Deciders)-1)...)
		for _, after := range r.Remind {
			out.RemindMs = append(out.RemindMs, after.Std().Milliseconds())
		}
	}
	if out != nil {
		slices.Sort(out.RemindMs)
		out.RemindMs = slices.Compact(out.RemindMs)
		slices.SortStableFunc(out.Escalate, func(a, b events.Escalation) int { return cmp.Compare(a.AfterMs, b.AfterMs) })
		if atExpiry != AtExpiryDeny { // which is what follows anyway
			out.AtExpiry = atExpiry
		}
	}
	return out
}

// stricter is what follows an expiry when both say what.
func stricter(a, b string) string {
	order := []string{"", AtExpiryKeep, AtExpiryDeny, AtExpiryEnd}
	if slices.Index(order, a) < slices.Index(order, b) {
		return b
	}
	return a
}
