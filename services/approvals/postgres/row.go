package postgres

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

// columns is what row scans, in its order. args, result and labels are read as
// text, so that no digit passes through a float.
const columns = `approval_id, namespace, kind, run_id, call_id, agent, tool, tool_digest, args::text, digest,
	epoch, key, summary, labels::text, state, decided_by, door, comment, result::text,
	created_at, expires_at, decided_at, valid_until, withdraw_reason, unused_at, unused_reason,
	announced_at, announce_count, landed_at, question::text, channel, preview, asked_digest, edited_args::text, rule::text, requester, policy, deferred_until, deferred_by, votes::text, remind_at, escalated, escalate_at, reminders,
	keeps AND state = 'pending' AND expires_at <= clock_timestamp()`

// row is one asked request as the database has it.
type row struct {
	ApprovalID, Namespace, Kind, RunID, CallID string
	Agent, Tool, ToolDigest, Args, Digest      string
	Epoch                                      int64
	Key, Summary, Labels                       string
	State, DecidedBy, Door, Comment            string
	Result                                     *string
	CreatedAt, ExpiresAt                       time.Time
	DecidedAt, ValidUntil                      *time.Time
	WithdrawReason                             string
	UnusedAt                                   *time.Time
	UnusedReason                               string
	AnnouncedAt                                *time.Time
	AnnounceCount                              int
	LandedAt                                   *time.Time
	Question                                   *string
	Channel                                    string
	Preview                                    string
	AskedDigest, EditedArgs                    *string
	Rule                                       *string
	Requester, Policy                          string
	DeferredUntil                              *time.Time
	DeferredBy                                 string
	Votes                                      *string
	RemindAt                                   *time.Time
	Escalated                                  int
	EscalateAt                                 *time.Time
	Reminders                                  int
	Overdue                                    bool
}

func (r row) request() (approvals.Request, error) {
	out := approvals.Request{
		ID: events.ApprovalID(r.ApprovalID), Namespace: r.Namespace, Kind: r.Kind,
		RunID: events.RunID(r.RunID), CallID: events.CallID(r.CallID),
		Agent: r.Agent, Tool: r.Tool, ToolDigest: events.Digest(r.ToolDigest),
		Args: json.RawMessage(r.Args), Digest: events.Digest(r.Digest),
		Epoch: r.Epoch, Key: r.Key, Summary: r.Summary, Preview: r.Preview, Channel: r.Channel, Requester: r.Requester, Policy: r.Policy,
		State: r.State, DecidedBy: r.DecidedBy, Door: r.Door, Comment: r.Comment,
		CreatedAt: r.CreatedAt.UTC(), ExpiresAt: r.ExpiresAt.UTC(),
		DecidedAt: utc(r.DecidedAt), ValidUntil: utc(r.ValidUntil),
		WithdrawReason: r.WithdrawReason, UnusedAt: utc(r.UnusedAt), UnusedReason: r.UnusedReason,
		AnnouncedAt: utc(r.AnnouncedAt), AnnounceCount: r.AnnounceCount, LandedAt: utc(r.LandedAt),
	}
	out.Reminded = r.Reminders
	out.DeferredUntil, out.DeferredBy, out.Overdue = utc(r.DeferredUntil), r.DeferredBy, r.Overdue
	if r.State != approvals.StatePending {
		out.Decision = r.State
	}
	if r.EditedArgs != nil && r.AskedDigest != nil {
		out.Edit = &approvals.Edit{Args: json.RawMessage(*r.EditedArgs), Digest: out.Digest}
		out.Digest = events.Digest(*r.AskedDigest)
	}
	if r.Result != nil {
		out.Result = json.RawMessage(*r.Result)
	}
	if r.Question != nil {
		if err := json.Unmarshal([]byte(*r.Question), &out.Question); err != nil {
			return approvals.Request{}, fmt.Errorf("question of approval %s: %w", r.ApprovalID, err)
		}
	}
	if r.Rule != nil {
		if err := json.Unmarshal([]byte(*r.Rule), &out.Rule); err != nil {
			return approvals.Request{}, fmt.Errorf("rule of approval %s: %w", r.ApprovalID, err)
		}
	}
	if r.Votes != nil {
		if err := json.Unmarshal([]byte(*r.Votes), &out.Votes); err != nil {
			return approvals.Request{}, fmt.Errorf("votes of approval %s: %w", r.ApprovalID, err)
		}
	}
	if r.RemindAt != nil && !out.Ended() && !out.Late(*r.RemindAt) {
		out.RemindAt = r.RemindAt.UTC()
	}
	if out.Escalated = r.Escalated; r.EscalateAt != nil && !out.Ended() && !out.Late(*r.EscalateAt) {
		out.EscalateAt = r.EscalateAt.UTC()
	}
	if err := json.Unmarshal([]byte(r.Labels), &out.Labels); err != nil {
		return approvals.Request{}, fmt.Errorf("labels of approval %s: %w", r.ApprovalID, err)
	}
	return out, nil
}

func utc(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
