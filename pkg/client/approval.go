package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Approval is one question to a person and its answer.
type Approval struct {
	ApprovalID     events.ApprovalID    `json:"approval_id"`
	Namespace      string               `json:"namespace"`
	Kind           string               `json:"kind"`  // events.ApprovalAction, ApprovalDoubt or ApprovalQuestion
	State          string               `json:"state"` // "pending" or a decision of pkg/events
	Summary        string               `json:"summary"`
	Preview        string               `json:"preview,omitempty"` // the call in one line, as the tool's preview has it
	RunID          events.RunID         `json:"run_id"`
	CallID         events.CallID        `json:"call_id"`
	Agent          string               `json:"agent"`
	Tool           string               `json:"tool"`
	ToolDigest     events.Digest        `json:"tool_digest"`
	Args           json.RawMessage      `json:"args"`
	Digest         events.Digest        `json:"digest"` // what a yes is bound to
	Epoch          int64                `json:"epoch,omitempty"`
	Key            string               `json:"key,omitempty"`
	Labels         map[string]string    `json:"labels,omitempty"`
	Question       *events.Question     `json:"question,omitempty"`  // what is asked, of a question
	Rule           *events.DecisionRule `json:"rule,omitempty"`      // who may decide; nil: every approver
	Hidden         bool                 `json:"hidden,omitempty"`    // what it is about is for who may decide
	Requester      string               `json:"requester,omitempty"` // who started the run
	CreatedAt      time.Time            `json:"created_at"`
	ExpiresAt      time.Time            `json:"expires_at"`
	DecidedAt      time.Time            `json:"decided_at,omitzero"`
	DecidedBy      string               `json:"decided_by,omitempty"`
	Door           string               `json:"door,omitempty"`
	Comment        string               `json:"comment,omitempty"`
	Result         json.RawMessage      `json:"result,omitempty"`
	Edited         *EditedApproval      `json:"edited,omitempty"` // what ran in the place of Args
	Votes          []Vote               `json:"votes,omitempty"`  // of a rule that wants several: who has said yes so far
	ValidUntil     time.Time            `json:"valid_until,omitzero"`
	DeferredUntil  time.Time            `json:"deferred_until,omitzero"`
	DeferredBy     string               `json:"deferred_by,omitempty"`
	RemindAt       time.Time            `json:"remind_at,omitzero"`   // its channel is told again then
	Overdue        bool                 `json:"overdue,omitempty"`    // its time is over, and it waits on
	Escalated      int                  `json:"escalated,omitempty"`  // how many steps of the rule have come
	EscalateAt     time.Time            `json:"escalate_at,omitzero"` // the next one does
	WithdrawReason string               `json:"withdraw_reason,omitempty"`
	UnusedAt       time.Time            `json:"unused_at,omitzero"`
	UnusedReason   string               `json:"unused_reason,omitempty"`
	AnnouncedAt    time.Time            `json:"announced_at,omitzero"`
	LandedAt       time.Time            `json:"landed_at,omitzero"`
	// Repeated is set in the answer of Decide when the same decision had been
	// made before; the answer shows that one.
	Repeated bool `json:"repeated,omitempty"`
}

// Vote is one person's yes of several.
type Vote struct {
	By     string        `json:"by"`
	Door   string        `json:"door"`
	Digest events.Digest `json:"digest"` // what the person saw; only votes for the same count together
	At     time.Time     `json:"at"`
}

// ApprovalFilter narrows a list of approvals. An empty State means pending;
// "all" means every state. Group is of ApprovalGroups; it goes with no other.
type ApprovalFilter struct {
	State, Kind string
	Run         events.RunID
	Group       string
	// Deferred says what a list of what waits shows of requests that were put off:
	// "show", "only", or nothing.
	Deferred string
}

// Approvals lists approvals, newest first.
func (c *Client) Approvals(ctx context.Context, f ApprovalFilter, p PageRequest) (Page[Approval], error) {
	q := p.values()
	set(q, "state", f.State)
	set(q, "kind", f.Kind)
	set(q, "run", string(f.Run))
	set(q, "group", f.Group)
	set(q, "deferred", f.Deferred)
	return get[Page[Approval]](ctx, c, "/v1/approvals", q)
}

// Approval reads one approval.
func (c *Client) Approval(ctx context.Context, id events.ApprovalID) (Approval, error) {
	return get[Approval](ctx, c, "/v1/approvals/"+url.PathEscape(string(id)), nil)
}

// Decision answers an approval.
type Decision struct {
	// Decision is "approve" or "reject" for an action; "happened",
	// "not_happened" or "give_up" for a doubt; "answer" for a question.
	Decision string          `json:"decision"`
	Comment  string          `json:"comment,omitempty"`
	Result   json.RawMessage `json:"result,omitempty"` // with "happened" and "answer"
	// Args are put in the place of the arguments, with "approve"; Digest is then
	// required and what PreviewEdit said.
	Args json.RawMessage `json:"args,omitempty"`
	// Fields is an object with what the rule's form wants filled in, with "approve";
	// Digest is then what was shown or, with Args, what PreviewEdit said.
	Fields json.RawMessage `json:"fields,omitempty"`
	// Digest is what the person saw. When set, a request that asks about
	// something else is not decided.
	Digest events.Digest `json:"digest,omitempty"`
}

// Deferral puts an approval off. With neither Until nor For it is shown again.
type Deferral struct {
	Until   time.Time `json:"until,omitzero"`
	For     string    `json:"for,omitempty"` // "4h"
	Comment string    `json:"comment,omitempty"`
}

// DeferApproval puts an approval off to a time before it expires. It can be decided
// all the while.
func (c *Client) DeferApproval(ctx context.Context, id events.ApprovalID, d Deferral) (Approval, error) {
	var out Approval
	_, err := c.do(ctx, call{
		method: http.MethodPost, path: "/v1/approvals/" + url.PathEscape(string(id)) + "/defer", body: d, idempotent: true,
	}, &out)
	return out, err
}

// EditedApproval is what a person made of the arguments of a request.
type EditedApproval struct {
	Args    json.RawMessage `json:"args"`
	Digest  events.Digest   `json:"digest"`
	Changes []events.Change `json:"changes"`
}

// ApprovalEdit says what other arguments would come to. Digest confirms them; it
// is empty when there are Problems.
type ApprovalEdit struct {
	EditedApproval
	Preview  string `json:"preview,omitempty"` // the changed call in one line, as the tool's preview has it
	Problems []struct {
		Path    string `json:"path"`
		Message string `json:"message"`
	} `json:"problems,omitempty"`
}

// PreviewEdit says what args in the place of an approval's would change. It
// changes nothing.
func (c *Client) PreviewEdit(ctx context.Context, id events.ApprovalID, args json.RawMessage) (ApprovalEdit, error) {
	var out ApprovalEdit
	_, err := c.do(ctx, call{
		method: http.MethodPost, path: "/v1/approvals/" + url.PathEscape(string(id)) + "/edit", body: map[string]json.RawMessage{"args": args}, idempotent: true,
	}, &out)
	return out, err
}

// PreviewFilled is PreviewEdit of args, nil for those that were asked about, with what
// the rule's form wants filled in.
func (c *Client) PreviewFilled(ctx context.Context, id events.ApprovalID, args, fields json.RawMessage) (ApprovalEdit, error) {
	body := map[string]json.RawMessage{"fields": fields}
	if args != nil {
		body["args"] = args
	}
	var out ApprovalEdit
	_, err := c.do(ctx, call{
		method: http.MethodPost, path: "/v1/approvals/" + url.PathEscape(string(id)) + "/edit", body: body, idempotent: true,
	}, &out)
	return out, err
}

// Decide decides an approval. The same decision again returns the stored one;
// one that lost is an *Error with status 409 that says to whom. It is safe to
// repeat and is repeated when the server cannot be reached.
func (c *Client) Decide(ctx context.Context, id events.ApprovalID, d Decision) (Approval, error) {
	var out Approval
	_, err := c.do(ctx, call{
		method: http.MethodPost, path: "/v1/approvals/" + url.PathEscape(string(id)) + "/decide", body: d, idempotent: true,
	}, &out)
	return out, err
}
