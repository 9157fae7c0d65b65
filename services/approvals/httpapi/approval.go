package httpapi

import (
	"encoding/json"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

// Approval is one request as the door shows it.
type Approval struct {
	ApprovalID     string            `json:"approval_id"`
	Namespace      string            `json:"namespace"`
	Kind           string            `json:"kind" enum:"action,doubt,question" doc:"action: may this call run? doubt: did this call happen? question: what is the answer?"`
	State          string            `json:"state" enum:"pending,approved,rejected,happened,not_happened,give_up,answered,expired,withdrawn"`
	Summary        string            `json:"summary" doc:"one plain sentence for the person who decides"`
	Preview        string            `json:"preview,omitempty" doc:"the call in one line, as the tool's preview has it; args says exactly what runs"`
	RunID          string            `json:"run_id"`
	CallID         string            `json:"call_id"`
	Agent          string            `json:"agent"`
	Tool           string            `json:"tool"`
	ToolDigest     string            `json:"tool_digest"`
	Args           json.RawMessage   `json:"args" doc:"what the tool receives"`
	Digest         string            `json:"digest" doc:"what a yes is bound to; send it back with the decision"`
	Epoch          int64             `json:"epoch,omitempty"`
	Key            string            `json:"key,omitempty" doc:"of the effect in the ledger"`
	Labels         map[string]string `json:"labels,omitempty"`
	Question       *Question         `json:"question,omitempty" doc:"what is asked, of a question"`
	Rule           *Rule             `json:"rule,omitempty" doc:"who may decide; absent: every approver"`
	Hidden         bool              `json:"hidden,omitempty" doc:"you may not decide it, so what it is about is left out"`
	Requester      string            `json:"requester,omitempty" doc:"who started the run"`
	CreatedAt      time.Time         `json:"created_at"`
	ExpiresAt      time.Time         `json:"expires_at"`
	DecidedAt      time.Time         `json:"decided_at,omitzero"`
	DecidedBy      string            `json:"decided_by,omitempty"`
	Door           string            `json:"door,omitempty" doc:"through which door it was decided"`
	Comment        string            `json:"comment,omitempty"`
	Result         json.RawMessage   `json:"result,omitempty"`
	Votes          []Vote            `json:"votes,omitempty" doc:"who has said yes so far, with a rule that wants several"`
	Edited         *Edited           `json:"edited,omitempty" doc:"what the person made of the arguments; that ran, and not args"`
	ValidUntil     time.Time         `json:"valid_until,omitzero" doc:"a yes that the tools service has not begun to use by then is void"`
	DeferredUntil  time.Time         `json:"deferred_until,omitzero" doc:"somebody put it off: until then it is left out of the inbox"`
	DeferredBy     string            `json:"deferred_by,omitempty" doc:"who put it off, or showed it again, last"`
	RemindAt       time.Time         `json:"remind_at,omitzero" doc:"its channel is told again then, when it still waits"`
	Overdue        bool              `json:"overdue,omitempty" doc:"its time is over, and it waits on"`
	Escalated      int               `json:"escalated,omitempty" doc:"how many steps of its rule's escalation have come"`
	EscalateAt     time.Time         `json:"escalate_at,omitzero" doc:"the next step comes then, when it still waits"`
	WithdrawReason string            `json:"withdraw_reason,omitempty"`
	UnusedAt       time.Time         `json:"unused_at,omitzero" doc:"the decision came, but the run no longer needed it"`
	UnusedReason   string            `json:"unused_reason,omitempty"`
	AnnouncedAt    time.Time         `json:"announced_at,omitzero" doc:"when the decision was first published to the runner"`
	LandedAt       time.Time         `json:"landed_at,omitzero" doc:"when the runner was seen to have recorded the decision"`
}

// Question is what a person is asked for an answer.
type Question struct {
	Text    string          `json:"text" doc:"as the model wrote it"`
	Choices []string        `json:"choices,omitempty" doc:"the answer is one of them, as a JSON string"`
	To      string          `json:"to,omitempty" doc:"who is asked, in words"`
	Schema  json.RawMessage `json:"schema,omitempty" doc:"a JSON Schema that the answer must fit"`
}

// Vote is one person's yes of several.
type Vote struct {
	By     string    `json:"by"`
	Door   string    `json:"door"`
	Digest string    `json:"digest" doc:"what the person saw; only votes for the same count together"`
	At     time.Time `json:"at"`
}

// Rule says who may decide, and when people are told again.
type Rule struct {
	Deciders        []Deciders `json:"deciders,omitempty" doc:"conditions on the person; all of them must hold"`
	RequesterDenied bool       `json:"requester_denied,omitempty" doc:"whoever started the run may not decide"`
	CommentRequired bool       `json:"comment_required,omitempty" doc:"a decision needs a comment; an answer to a question needs none"`
	Quorum          int64      `json:"quorum,omitempty" doc:"how many people must say yes to the same; one no ends it"`
	RemindMs        []int64    `json:"remind_ms,omitempty" doc:"how long after it was asked its channel is told again"`
	Escalate        []Step     `json:"escalate,omitempty" doc:"what follows while nobody decides, in order"`
	Form            []Field    `json:"form,omitempty" doc:"arguments that the person fills in who says yes"`
	Calendar        *Calendar  `json:"calendar,omitempty" doc:"which time counts towards expiry, reminders and steps; absent: all of it"`
	AtExpiry        string     `json:"at_expiry,omitempty" enum:"keep,end" doc:"keep: it waits on when its time is over; end: the run ends then; absent: it ends, and the call is not made"`
}

// Field is an argument that the person fills in who says yes.
type Field struct {
	Name     string          `json:"name"`
	Title    string          `json:"title,omitempty"`
	Required bool            `json:"required,omitempty" doc:"no yes without it"`
	Schema   json.RawMessage `json:"schema,omitempty" doc:"JSON Schema of the argument"`
}

// Calendar is when people are at work.
type Calendar struct {
	TimeZone string      `json:"time_zone"`
	Open     []OpenHours `json:"open"`
	Holidays []string    `json:"holidays,omitempty" doc:"days (2026-12-25) and ranges of days (2026-12-24..2026-12-26) on which nothing opens"`
}

// OpenHours are hours of some days of the week.
type OpenHours struct {
	Days []string `json:"days" doc:"mon to sun"`
	From string   `json:"from" doc:"by the wall clock, like 09:00"`
	To   string   `json:"to" doc:"not after from: on the next day"`
}

// Step is one step of an escalation.
type Step struct {
	AfterMs  int64     `json:"after_ms" doc:"how long after it was asked"`
	Deciders *Deciders `json:"deciders,omitempty" doc:"whoever they name meets one of the rule's conditions from then on"`
	Of       int       `json:"of,omitempty" doc:"which of the rule's conditions, from 0"`
	Channel  string    `json:"channel,omitempty" doc:"is told then, and its people decide there"`
}

// Deciders holds for one of the users, for who is in one of the groups, and for who
// has one of the roles.
type Deciders struct {
	Users  []string `json:"users,omitempty"`
	Groups []string `json:"groups,omitempty"`
	Roles  []string `json:"roles,omitempty"`
}

func rule(r *events.DecisionRule) *Rule {
	if r == nil {
		return nil
	}
	out := &Rule{RequesterDenied: r.RequesterDenied, CommentRequired: r.CommentRequired, Quorum: r.Quorum, RemindMs: r.RemindMs, AtExpiry: r.AtExpiry}
	for _, d := range r.Deciders {
		out.Deciders = append(out.Deciders, Deciders(d))
	}
	for _, f := range r.Form {
		out.Form = append(out.Form, Field(f))
	}
	if c := r.Calendar; c != nil {
		out.Calendar = &Calendar{TimeZone: c.TimeZone, Holidays: c.Holidays}
		for _, o := range c.Open {
			out.Calendar.Open = append(out.Calendar.Open, OpenHours(o))
		}
	}
	for _, e := range r.Escalate {
		out.Escalate = append(out.Escalate, Step{e.AfterMs, (*Deciders)(e.Deciders), e.Of, e.Channel})
	}
	return out
}

func question(q *events.Question) *Question {
	if q == nil {
		return nil
	}
	return &Question{Text: q.Text, Choices: q.Choices, To: q.To, Schema: q.Schema}
}

func show(r approvals.Request) Approval {
	out := Approval{
		ApprovalID: string(r.ID), Namespace: r.Namespace, Kind: r.Kind, State: r.State, Summary: r.Summary, Preview: r.Preview,
		RunID: string(r.RunID), CallID: string(r.CallID), Agent: r.Agent, Tool: r.Tool, ToolDigest: string(r.ToolDigest),
		Args: r.Args, Digest: string(r.Digest), Epoch: r.Epoch, Key: r.Key, Labels: r.Labels, Question: question(r.Question),
		Rule: rule(r.Rule), Requester: r.Requester, Hidden: r.Hidden,
		CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt, DecidedAt: r.DecidedAt, DecidedBy: r.DecidedBy,
		Door: r.Door, Comment: r.Comment, Result: r.Result, ValidUntil: r.ValidUntil,
		WithdrawReason: r.WithdrawReason, UnusedAt: r.UnusedAt, UnusedReason: r.UnusedReason,
		AnnouncedAt: r.AnnouncedAt, LandedAt: r.LandedAt,
	}
	out.DeferredUntil, out.DeferredBy = r.DeferredUntil, r.DeferredBy
	for _, v := range r.Votes {
		out.Votes = append(out.Votes, Vote{v.By, v.Door, string(v.Digest), v.At})
	}
	out.RemindAt, out.Overdue = r.RemindAt, r.Overdue
	out.Escalated, out.EscalateAt = r.Escalated, r.EscalateAt
	if r.Edit != nil {
		out.Edited = &Edited{Args: r.Edit.Args, Digest: string(r.Edit.Digest), Changes: changes(r.Changes())}
	}
	return out
}
