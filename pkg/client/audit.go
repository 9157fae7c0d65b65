package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// AuditRow is one thing that happened to an approval request. Its hash is over the
// other fields, so that every field is kept as it came.
type AuditRow struct {
	Namespace  string            `json:"namespace"`
	Seq        int64             `json:"seq"` // from 1, without gaps
	At         string            `json:"at"`  // UTC, six digits
	Kind       string            `json:"kind"`
	ApprovalID events.ApprovalID `json:"approval_id"`
	RunID      events.RunID      `json:"run_id"`
	Actor      string            `json:"actor"` // empty for what the clock, a run or a worker did
	Door       string            `json:"door"`
	Detail     string            `json:"detail"` // JSON, as text
	Prev       string            `json:"prev"`   // hash of the row before; empty of the first
	Hash       string            `json:"hash"`
}

// Sum is the hash that the row must have: SHA-256, in hex, of its fields from prev to
// detail, each as <bytes>:<value>, (a netstring).
func (r AuditRow) Sum() string {
	h := sha256.New()
	for _, v := range []string{r.Prev, r.Namespace, strconv.FormatInt(r.Seq, 10), r.At, r.Kind, string(r.ApprovalID), string(r.RunID), r.Actor, r.Door, r.Detail} {
		fmt.Fprintf(h, "%d:%s,", len(v), v)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// AuditHead is the end of a chain. Kept elsewhere it shows later that nothing up to it
// was changed.
type AuditHead struct {
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"`
}

// String is the form that ParseAuditHead reads: "12:<hash>".
func (h AuditHead) String() string { return fmt.Sprintf("%d:%s", h.Seq, h.Hash) }

// AuditFilter narrows the audit. Empty fields do not narrow.
type AuditFilter struct {
	Since    time.Time
	Run      events.RunID
	Approval events.ApprovalID
}

// AuditPage is a page of the audit, oldest first.
type AuditPage struct {
	Page[AuditRow]
	Head AuditHead `json:"head"` // when the page was read
}

// ApprovalsAudit reads a page of the audit.
func (c *Client) ApprovalsAudit(ctx context.Context, f AuditFilter, p PageRequest) (AuditPage, error) {
	q := p.values()
	if !f.Since.IsZero() {
		set(q, "since", f.Since.UTC().Format(time.RFC3339Nano))
	}
	set(q, "run", string(f.Run))
	set(q, "approval", string(f.Approval))
	return get[AuditPage](ctx, c, "/v1/approvals/audit", q)
}

// AuditCheck finds what was changed in a chain of audit rows, which are given to it one
// after the other. The zero value begins with any row.
type AuditCheck struct {
	// Keep are heads that were kept elsewhere; the chain must go through them.
	Keep []AuditHead

	Rows        int64
	First, Last AuditRow
	Problems    []string // at most 20, each with its place
}

func (c *AuditCheck) bad(format string, args ...any) {
	if len(c.Problems) < 20 {
		c.Problems = append(c.Problems, fmt.Sprintf(format, args...))
	}
}

// Add looks at the next row.
func (c *AuditCheck) Add(r AuditRow) {
	c.Rows++
	if r.Sum() != r.Hash {
		c.bad("row %d was changed: its hash is not that of what it says", r.Seq)
	}
	for _, k := range c.Keep {
		if k.Seq == r.Seq && k.Hash != r.Hash {
			c.bad("row %d is not the one whose hash was kept: something up to it was changed", r.Seq)
		}
	}
	switch l := c.Last; {
	case c.Rows == 1:
		c.First = r
		if r.Seq == 1 && r.Prev != "" {
			c.bad("row 1 follows another: something before it was removed")
		}
	case r.Namespace != l.Namespace:
		c.bad("row %d is of the namespace %q, and the row before of %q", r.Seq, r.Namespace, l.Namespace)
	case r.Seq == l.Seq+1 && r.Prev != l.Hash:
		c.bad("row %d does not follow row %d: one of them was changed, put in or moved", r.Seq, l.Seq)
	case r.Seq == l.Seq+2:
		c.bad("row %d is missing", l.Seq+1)
	case r.Seq > l.Seq+1:
		c.bad("rows %d to %d are missing", l.Seq+1, r.Seq-1)
	case r.Seq <= l.Seq:
		c.bad("row %d stands after row %d: it was put in or moved", r.Seq, l.Seq)
	}
	c.Last = r
}

// End looks at where the chain ends; head is the end that the server names, nil when
// it is not known.
func (c *AuditCheck) End(head *AuditHead) {
	for _, k := range c.Keep {
		if k.Seq > c.Last.Seq {
			c.bad("rows %d to %d are missing at the end: row %d was kept", c.Last.Seq+1, k.Seq, k.Seq)
		}
	}
	switch {
	case head == nil:
	case head.Seq > c.Last.Seq:
		c.bad("rows %d to %d are missing at the end", c.Last.Seq+1, head.Seq)
	case head.Seq < c.Last.Seq || head.Hash != c.Last.Hash:
		c.bad("row %d is not the end of the chain, which is row %d: rows were put in or changed at the end", c.Last.Seq, head.Seq)
	}
}
