package approvals

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// Kinds of audit rows that no table says by itself. The others, requested, told,
// decided, attempted, expired, withdrawn, unused, dispatched and outcome, follow from
// what is stored.
const (
	AuditShown        = "shown"
	AuditGrantMade    = "grant_made"
	AuditGrantUsed    = "grant_used"
	AuditGrantRevoked = "grant_revoked"
)

// AuditEntry is what one row of the audit says.
type AuditEntry struct {
	Namespace  string
	Kind       string
	ApprovalID events.ApprovalID // empty: about none
	RunID      events.RunID
	Actor      string // who; empty for what nobody did
	Door       string
	Detail     any // as JSON; nil for none
	// Once adds nothing when Actor has done the same about the request through Door.
	Once bool
}

// AuditRow is an entry in its chain, see client.AuditRow.
type AuditRow struct {
	Namespace  string
	Seq        int64
	At         time.Time
	Kind       string
	ApprovalID events.ApprovalID
	RunID      events.RunID
	Actor      string
	Door       string
	Detail     string
	Prev, Hash string
}

// AuditHead is the end of a namespace's chain; its zero value is that of an empty one.
type AuditHead struct {
	Seq  int64
	Hash string
}

// AuditFilter narrows the audit. Empty fields do not narrow.
type AuditFilter struct {
	Namespace  string // required
	After      int64  // only rows behind this one
	Since      time.Time
	ApprovalID events.ApprovalID
	RunID      events.RunID
	Limit      int
}

// Auditor keeps the audit. What is stored beside it is audited by the database.
type Auditor interface {
	// Append adds an entry in a transaction of its own.
	Append(ctx context.Context, e AuditEntry) error
	// Shown adds what by was shown through door, each request once.
	Shown(ctx context.Context, namespace, by, door string, shown []Request) error
	// Follow adds what the tools service says of up to limit approved calls, and
	// returns how many there were.
	Follow(ctx context.Context, limit int) (int, error)
	// Rows returns rows, oldest first, and the end of the chain at the same moment.
	Rows(ctx context.Context, f AuditFilter) ([]AuditRow, AuditHead, error)
}

// Audit returns rows of the audit, oldest first, and the end of the chain.
func (s *Service) Audit(ctx context.Context, f AuditFilter) ([]AuditRow, AuditHead, error) {
	return s.audit.Rows(ctx, f)
}

// Shown records that somebody was shown the details of requests of one namespace; those
// that are hidden are left out. What cannot be recorded is logged, and shown all the
// same: reading changes nothing.
func (s *Service) Shown(ctx context.Context, by, door string, requests ...Request) {
	var shown []Request
	for _, r := range requests {
		if !r.Hidden {
			shown = append(shown, r)
		}
	}
	if s.audit == nil || len(shown) == 0 {
		return
	}
	if err := s.audit.Shown(ctx, shown[0].Namespace, by, door, shown); err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "not recorded that requests were shown", telemetry.KeyApprovalID, shown[0].ID, "count", len(shown), telemetry.KeyPrincipal, by, telemetry.KeyErr, err)
	}
}

// follow records what became of approved calls.
func (s *Service) follow(ctx context.Context) error {
	if s.audit == nil {
		return nil
	}
	for {
		n, err := s.audit.Follow(ctx, sweepBatch)
		if err != nil {
			return fmt.Errorf("record what became of approved calls: %w", err)
		}
		if n < sweepBatch {
			return nil
		}
	}
}
