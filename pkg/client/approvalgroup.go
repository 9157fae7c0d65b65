package client

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// ApprovalGroup is what waits and belongs together.
type ApprovalGroup struct {
	Group      string              `json:"group"` // for ApprovalFilter and ManyDecisions
	By         string              `json:"by"`    // "flow", "agent", "tool" or "similarity"
	Value      string              `json:"value"`
	Count      int                 `json:"count"`
	Oldest     time.Time           `json:"oldest"`
	Newest     time.Time           `json:"newest"`
	NextExpiry time.Time           `json:"next_expiry"`
	Sample     Approval            `json:"sample"`
	IDs        []events.ApprovalID `json:"ids"`                  // the newest
	Proposal   *GrantProposal      `json:"proposal,omitempty"`   // by similarity: a grant could do it
	IDsCursor  string              `json:"ids_cursor,omitempty"` // the members behind IDs, of Approvals with Group
}

// GrantProposal is a grant that could spare people the asking.
type GrantProposal struct {
	Approved int               `json:"approved"` // how often people approved the same in the last 30 days
	Like     events.ApprovalID `json:"like"`     // for GrantRequest
	Tool     string            `json:"tool"`
	Agent    string            `json:"agent"`
}

// ApprovalGroups lists what waits in groups of by, the next to expire first.
func (c *Client) ApprovalGroups(ctx context.Context, by, kind string, p PageRequest) (Page[ApprovalGroup], error) {
	q := p.values()
	set(q, "group_by", by)
	set(q, "kind", kind)
	got, err := get[struct {
		Groups     []ApprovalGroup `json:"groups"`
		NextCursor string          `json:"next_cursor"`
	}](ctx, c, "/v1/approvals", q)
	return Page[ApprovalGroup]{Items: got.Groups, NextCursor: got.NextCursor}, err
}

// ManyDecisions decides many approvals, each by itself.
type ManyDecisions struct {
	Decision string         `json:"decision,omitempty"` // of every item that names no other, and of a group
	Comment  string         `json:"comment,omitempty"`
	Items    []ItemDecision `json:"items,omitempty"` // at most 200
	// Group and UpTo, its Newest, decide what waits in a group as it was shown.
	Group string    `json:"group,omitempty"`
	UpTo  time.Time `json:"up_to,omitzero"`
}

// ItemDecision is one of many.
type ItemDecision struct {
	ID       events.ApprovalID `json:"id"`
	Digest   events.Digest     `json:"digest,omitempty"` // what was shown; a yes needs it
	Decision string            `json:"decision,omitempty"`
	Comment  *string           `json:"comment,omitempty"`
	Result   json.RawMessage   `json:"result,omitempty"`
	Args     json.RawMessage   `json:"args,omitempty"` // with approve; see Decision
	Fields   json.RawMessage   `json:"fields,omitempty"`
}

// ManyResults is what became of them, in their order.
type ManyResults struct {
	Results []ItemResult `json:"results"`
	Decided int          `json:"decided"`
	More    bool         `json:"more"`
}

// ItemResult is what became of one.
type ItemResult struct {
	ApprovalID events.ApprovalID `json:"approval_id"`
	Status     int               `json:"status"` // what deciding it alone would have answered
	State      string            `json:"state,omitempty"`
	DecidedBy  string            `json:"decided_by,omitempty"`
	DecidedAt  time.Time         `json:"decided_at,omitzero"`
	Door       string            `json:"door,omitempty"`
	Repeated   bool              `json:"repeated,omitempty"`
	Code       string            `json:"code,omitempty"`
	Detail     string            `json:"detail,omitempty"`
}

// DecideMany decides many approvals; those that fail do not keep the others from it.
// It is safe to repeat and is repeated when the server cannot be reached.
func (c *Client) DecideMany(ctx context.Context, d ManyDecisions) (ManyResults, error) {
	var out ManyResults
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/v1/approvals/decide", body: d, idempotent: true}, &out)
	return out, err
}
