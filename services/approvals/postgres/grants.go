package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

var _ approvals.Grants = (*Store)(nil)

const grantColumns = `grant_id, namespace, tool, agent, condition, max_uses, used, amount_of, coalesce(max_amount::text, ''), amount::text,
	expires_at, comment, created_at, created_by, role, groups, revoked_at, revoked_by`

func scanGrant(row pgx.CollectableRow) (g approvals.Grant, err error) {
	var revoked *time.Time
	err = row.Scan(&g.ID, &g.Namespace, &g.Tool, &g.Agent, &g.When, &g.MaxUses, &g.Used, &g.AmountOf, &g.MaxAmount, &g.Amount,
		&g.ExpiresAt, &g.Comment, &g.CreatedAt, &g.Maker.Name, &g.Maker.Role, &g.Maker.Groups, &revoked, &g.RevokedBy)
	g.ExpiresAt, g.CreatedAt, g.RevokedAt = g.ExpiresAt.UTC(), g.CreatedAt.UTC(), utc(revoked)
	return g, err
}

func oneGrant(rows pgx.Rows, err error) (approvals.Grant, error) {
	if err != nil {
		return approvals.Grant{}, err
	}
	g, err := pgx.CollectExactlyOneRow(rows, scanGrant)
	if errors.Is(err, pgx.ErrNoRows) {
		err = approvals.ErrNotFound
	}
	return g, err
}

const makeGrantSQL = `
INSERT INTO approvals.grants (grant_id, namespace, tool, agent, condition, max_uses, amount_of, max_amount, expires_at, comment, created_by, role, groups)
VALUES ($1, $2, $3, $4, $5, $6, $7, nullif($8::text, '')::numeric, clock_timestamp() + $9::bigint * interval '1 millisecond', $10, $11, $12, $13)
RETURNING ` + grantColumns

// MakeGrant implements approvals.Grants.
func (s *Store) MakeGrant(ctx context.Context, g approvals.Grant, lasts time.Duration) (made approvals.Grant, err error) {
	err = pg.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		groups := g.Maker.Groups
		if groups == nil {
			groups = []string{}
		}
		made, err = oneGrant(tx.Query(ctx, makeGrantSQL, g.ID, g.Namespace, g.Tool, g.Agent, g.When, g.MaxUses, g.AmountOf, g.MaxAmount,
			lasts.Milliseconds(), g.Comment, g.Maker.Name, g.Maker.Role, groups))
		if err != nil {
			return err
		}
		return audit(ctx, tx, approvals.AuditEntry{Namespace: g.Namespace, Kind: approvals.AuditGrantMade, Actor: g.Maker.Name, Door: approvals.DoorAPI, Detail: map[string]any{
			"grant_id": g.ID, "tool": g.Tool, "agent": g.Agent, "when": g.When, "count": g.MaxUses, "amount_of": g.AmountOf, "max_amount": g.MaxAmount, "expires_at": made.ExpiresAt, "comment": g.Comment}})
	})
	return made, err
}

const getGrantSQL = `SELECT ` + grantColumns + ` FROM approvals.grants WHERE grant_id = $1 AND namespace = $2`

// Grant implements approvals.Grants.
func (s *Store) Grant(ctx context.Context, namespace, id string) (approvals.Grant, error) {
	return oneGrant(s.pool.Query(ctx, getGrantSQL, id, namespace))
}

const listGrantsSQL = `SELECT ` + grantColumns + ` FROM approvals.grants
WHERE namespace = $1 AND (created_at, grant_id) < ($2, $3)
	AND ($4 OR revoked_at IS NULL AND used < max_uses AND expires_at > (SELECT clock_timestamp()))
ORDER BY created_at DESC, grant_id DESC LIMIT $5`

// ListGrants implements approvals.Grants.
func (s *Store) ListGrants(ctx context.Context, f approvals.GrantFilter) ([]approvals.Grant, error) {
	before := approvals.GrantPosition{CreatedAt: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
	if f.Before != nil {
		before = *f.Before
	}
	rows, err := s.pool.Query(ctx, listGrantsSQL, f.Namespace, before.CreatedAt, before.ID, f.All, f.Limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanGrant)
}

const revokeGrantSQL = `
UPDATE approvals.grants SET revoked_at = clock_timestamp(), revoked_by = $3
WHERE grant_id = $1 AND namespace = $2 AND revoked_at IS NULL RETURNING ` + grantColumns

// RevokeGrant implements approvals.Grants.
func (s *Store) RevokeGrant(ctx context.Context, namespace, id, by string) (g approvals.Grant, err error) {
	err = pg.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if g, err = oneGrant(tx.Query(ctx, revokeGrantSQL, id, namespace, by)); errors.Is(err, approvals.ErrNotFound) {
			g, err = oneGrant(tx.Query(ctx, getGrantSQL, id, namespace)) // revoked before
			return err
		}
		if err != nil {
			return err
		}
		return audit(ctx, tx, approvals.AuditEntry{Namespace: namespace, Kind: approvals.AuditGrantRevoked, Actor: by, Door: approvals.DoorAPI, Detail: map[string]any{"grant_id": id}})
	})
	return g, err
}

// grantsForSQL lists what may allow a request, the next to expire first.
const grantsForSQL = `SELECT ` + grantColumns + ` FROM approvals.grants
WHERE namespace = $1 AND tool = $2 AND (agent = '' OR agent = $3)
	AND revoked_at IS NULL AND used < max_uses AND expires_at > (SELECT clock_timestamp())
ORDER BY expires_at, grant_id LIMIT 50`

// useGrantSQL counts one use. It locks the grant's row, so of two who ask at once for
// the last use one gets it; every bound is looked at again while the row is held.
const useGrantSQL = `
UPDATE approvals.grants SET used = used + 1, amount = amount + $2::text::numeric
WHERE grant_id = $1 AND revoked_at IS NULL AND used < max_uses AND expires_at > clock_timestamp()
	AND (max_amount IS NULL OR amount + $2::text::numeric <= max_amount)
RETURNING used, amount::text`

const grantUseSQL = `INSERT INTO approvals.grant_uses (approval_id, grant_id, amount) VALUES ($1, $2, $3::text::numeric)`

// hushSQL takes back what people were to be told of a request that waits for nobody.
const hushSQL = `UPDATE approvals.notices SET state = 'gone', next_at = NULL WHERE notice_id = $1 || '-ask' AND state = 'due'`

// errLate undoes a use: the request's time was over before it could be approved.
var errLate = errors.New("the request has no time")

// open opens a request; by a grant when one allows it.
func (s *Store) open(ctx context.Context, a approvals.Ask, args []any) (approvals.Request, error) {
	grants, amounts, err := s.grantable(ctx, a)
	if err != nil {
		return approvals.Request{}, fmt.Errorf("look for grants: %w", err)
	}
	if len(grants) > 0 {
		if r, err := s.openGranted(ctx, grants, amounts, args); !errors.Is(err, errLate) {
			return r, err
		}
	}
	return one(s.pool.Query(ctx, askSQL, args...))
}

// grantable lists the grants that would allow a, with what each would use.
func (s *Store) grantable(ctx context.Context, a approvals.Ask) (found []approvals.Grant, amounts []string, err error) {
	if a.Kind != events.ApprovalAction || a.ForkOf != "" { // what it did before may happen again: a person looks
		return nil, nil, nil
	}
	rows, err := s.pool.Query(ctx, grantsForSQL, a.Namespace, a.Tool, a.Agent)
	if err != nil {
		return nil, nil, err
	}
	all, err := pgx.CollectRows(rows, scanGrant)
	for _, g := range all {
		if amount, ok := g.Allows(a.Request); ok {
			found, amounts = append(found, g), append(amounts, amount)
		}
	}
	return found, amounts, err
}

// openGranted opens a request and approves it in the same commit when one of the
// grants still has a use for it.
func (s *Store) openGranted(ctx context.Context, grants []approvals.Grant, amounts []string, args []any) (r approvals.Request, err error) {
	err = pg.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if r, err = one(tx.Query(ctx, askSQL, args...)); err != nil || r.Ended() {
			return err // known, or withdrawn before it was asked
		}
		for i, g := range grants {
			var used int64
			var amount string
			switch err := tx.QueryRow(ctx, useGrantSQL, g.ID, amounts[i]).Scan(&used, &amount); {
			case errors.Is(err, pgx.ErrNoRows):
				continue
			case err != nil:
				return fmt.Errorf("use grant %s: %w", g.ID, err)
			}
			return s.useGrant(ctx, tx, &r, g, amounts[i], map[string]any{"grant_id": g.ID, "made_by": g.Maker.Name, "used": used, "amount": amounts[i], "amount_in_all": amount})
		}
		return nil
	})
	return r, err
}

func (s *Store) useGrant(ctx context.Context, tx pgx.Tx, r *approvals.Request, g approvals.Grant, amount string, detail map[string]any) error {
	a := g.Attempt(*r)
	won, err := one(tx.Query(ctx, decideSQL, a.ID, a.Decision, a.By, a.Door, a.Comment, nil, nil, nil, nil))
	if errors.Is(err, pgx.ErrNoRows) {
		return errLate
	}
	if err != nil {
		return fmt.Errorf("decide by grant %s: %w", g.ID, err)
	}
	*r = won
	if _, err := tx.Exec(ctx, grantUseSQL, a.ID, g.ID, amount); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, hushSQL, string(a.ID)); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, attemptSQL, a.ID, a.Namespace, &won.DecidedAt, a.By, a.Door, a.Decision, a.Comment, nil, string(approvals.Decided), nil); err != nil {
		return err
	}
	return audit(ctx, tx, approvals.AuditEntry{Namespace: r.Namespace, Kind: approvals.AuditGrantUsed, ApprovalID: r.ID, RunID: r.RunID, Actor: a.By, Door: a.Door, Detail: detail})
}
