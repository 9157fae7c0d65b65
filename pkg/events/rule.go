package events

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// What DecisionRule.AtExpiry says.
const (
	AtExpiryKeep = "keep" // the request stays open
	AtExpiryEnd  = "end"  // the run ends
)

// DecisionRule says who may decide a request, and when people are told of it again. It is frozen when the request is
// asked, and what a yes is bound to covers it.
type DecisionRule struct {
	// Deciders lists conditions on the person; all of them must hold.
	Deciders []Deciders `json:"deciders,omitempty"`
	// RequesterDenied says that whoever started the run may not decide.
	RequesterDenied bool `json:"requester_denied,omitempty"`
	// CommentRequired says that whoever decides must say why; an answer says it itself.
	CommentRequired bool `json:"comment_required,omitempty"`
	// Quorum is how many people must say yes; less than two: one.
	Quorum int64 `json:"quorum,omitempty"`
	// RemindMs says how long after it was asked its channel is told again, ascending.
	RemindMs []int64 `json:"remind_ms,omitempty"`
	// AtExpiry is AtExpiryKeep when the request waits on, overdue, once its time is
	// over; with anything else it ends, and the call is not made. With AtExpiryEnd
	// the run is over then, too: its runner sees to that.
	AtExpiry string `json:"at_expiry,omitempty"`
	// Escalate lists what follows while nobody decides, in the order of its times.
	Escalate []Escalation `json:"escalate,omitempty"`
	// Form lists the arguments that a person fills in who says yes to the call.
	Form []FormField `json:"form,omitempty"`
	// Calendar says which time counts towards the expiry, reminders and steps; nil:
	// all of it.
	Calendar *Calendar `json:"calendar,omitempty"`
}

// FormField is an argument of a call that the person fills in who says yes to it.
type FormField struct {
	Name     string          `json:"name"`
	Title    string          `json:"title,omitempty"`
	Required bool            `json:"required,omitempty"`
	Schema   json.RawMessage `json:"schema,omitempty"` // of the argument, as the tool has it
}

// FormOf is the form of r, which may be nil.
func (r *DecisionRule) FormOf() []FormField {
	if r == nil {
		return nil
	}
	return r.Form
}

// FormMissing names the first field that must be filled in and is not in args; empty
// for none.
func (r *DecisionRule) FormMissing(args json.RawMessage) string {
	if r == nil || len(r.Form) == 0 {
		return ""
	}
	var given map[string]json.RawMessage
	_ = json.Unmarshal(args, &given) // what is no object has none
	for _, f := range r.Form {
		if _, ok := given[f.Name]; f.Required && !ok {
			return f.Name
		}
	}
	return ""
}

// Calendar is when people are at work.
type Calendar struct {
	TimeZone string      `json:"time_zone"` // IANA
	Open     []OpenHours `json:"open"`
	// Holidays are days (2026-12-25) and ranges of days (2026-12-24..2026-12-26) on
	// which nothing opens.
	Holidays []string `json:"holidays,omitempty"`
}

// OpenHours are hours of some days of the week. A time To that is not after From is on
// the next day.
type OpenHours struct {
	Days []string `json:"days"` // mon to sun
	From string   `json:"from"` // 09:00, by the wall clock
	To   string   `json:"to"`
}

// Escalation is one step that follows while nobody decides.
type Escalation struct {
	AfterMs int64 `json:"after_ms"` // since it was asked
	// Deciders may decide as well from then on: whoever they name meets the condition
	// Deciders[Of] of the rule. Nil: nobody more may.
	Deciders *Deciders `json:"deciders,omitempty"`
	Of       int       `json:"of,omitempty"`
	Channel  string    `json:"channel,omitempty"` // is told then, and its people decide there; empty: none
}

// Deciders holds for a person who is one of the users, or in one of the groups, or
// has one of the roles.
type Deciders struct {
	Users  []string `json:"users,omitempty"`
	Groups []string `json:"groups,omitempty"`
	Roles  []string `json:"roles,omitempty"`
}

// String names them.
func (d Deciders) String() string {
	one := append([]string(nil), d.Users...)
	for _, g := range d.Groups {
		one = append(one, "group "+g)
	}
	for _, role := range d.Roles {
		one = append(one, "role "+role)
	}
	return strings.Join(one, " or ")
}

// String says in words who may decide.
func (r DecisionRule) String() string {
	var all []string
	for i, d := range r.Deciders {
		one := d.String()
		for _, e := range r.Escalate {
			if e.Deciders != nil && e.Of == i {
				one += fmt.Sprintf(" or, after %s, %s", time.Duration(e.AfterMs)*time.Millisecond, e.Deciders)
			}
		}
		all = append(all, one)
	}
	said := strings.Join(all, ", who must also be ")
	if said == "" {
		said = "every approver"
	}
	if r.RequesterDenied {
		said += ", but not by who started the run"
	}
	if r.CommentRequired {
		said += ", and with a comment"
	}
	if r.Quorum > 1 {
		said = fmt.Sprintf("%d people of: %s", r.Quorum, said)
	}
	return said
}
