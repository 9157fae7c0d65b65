package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

func registerAudit(d *door.Door, a api) {
	door.Register(d, huma.Operation{
		Method: http.MethodGet, Path: "/v1/approvals/audit", Tags: []string{"approvals"}, OperationID: "audit-approvals",
		Summary: "The audit: what happened to approval requests, oldest first, each row with the hash of the row before",
	}, authn.Admin, a.audit)
}

// AuditRow is one row of the audit.
type AuditRow struct {
	Namespace  string `json:"namespace"`
	Seq        int64  `json:"seq" doc:"from 1, without gaps"`
	At         string `json:"at" doc:"by the database's clock, UTC, six digits"`
	Kind       string `json:"kind" doc:"requested, told, shown, attempted, decided, expired, withdrawn, unused, dispatched, outcome, grant_made, grant_used, grant_revoked"`
	ApprovalID string `json:"approval_id"`
	RunID      string `json:"run_id"`
	Actor      string `json:"actor" doc:"who; empty for what the clock, a run or a worker did"`
	Door       string `json:"door" doc:"api, link, slack; clock, run, tools; of what was told, the channel"`
	Detail     string `json:"detail" doc:"JSON, as text: its bytes are hashed"`
	Prev       string `json:"prev" doc:"hash of the row before; empty of the first"`
	Hash       string `json:"hash" doc:"SHA-256 of prev, namespace, seq, at, kind, approval_id, run_id, actor, door and detail, each as <bytes>:<value>,"`
}

type auditInput struct {
	door.PageInput
	Since    time.Time `query:"since"`
	Run      string    `query:"run" doc:"id of a run"`
	Approval string    `query:"approval" doc:"id of an approval"`
}

type auditOutput struct {
	Body struct {
		door.Page[AuditRow]
		Head struct {
			Seq  int64  `json:"seq"`
			Hash string `json:"hash"`
		} `json:"head" doc:"the end of the chain when this page was read; keep it elsewhere"`
	}
}

func (a api) audit(ctx context.Context, in *auditInput) (*auditOutput, error) {
	who, _ := authn.FromContext(ctx)
	f := approvals.AuditFilter{Namespace: who.Namespace, Since: in.Since, RunID: events.RunID(in.Run), ApprovalID: events.ApprovalID(in.Approval), Limit: in.Limit + 1}
	switch {
	case in.Run != "" && !f.RunID.Valid():
		return nil, invalid("query.run", "not a run id")
	case in.Approval != "" && !events.ValidToken(in.Approval):
		return nil, invalid("query.approval", "not the id of an approval")
	}
	if _, err := door.DecodeCursor(in.Cursor, &f.After); err != nil {
		return nil, err
	}
	rows, head, err := a.service.Audit(ctx, f)
	if err != nil {
		return nil, err
	}
	out := &auditOutput{}
	out.Body.Head.Seq, out.Body.Head.Hash = head.Seq, head.Hash
	out.Body.Page = door.PageOf(rows, in.Limit, func(r approvals.AuditRow) any { return r.Seq }, func(r approvals.AuditRow) AuditRow {
		return AuditRow{
			Namespace: r.Namespace, Seq: r.Seq, At: r.At.UTC().Format("2006-01-02T15:04:05.000000Z"), Kind: r.Kind, ApprovalID: string(r.ApprovalID), RunID: string(r.RunID),
			Actor: r.Actor, Door: r.Door, Detail: r.Detail, Prev: r.Prev, Hash: r.Hash,
		}
	})
	return out, nil
}
