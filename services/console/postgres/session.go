package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/services/console"
)

// A name is a person's or a token's. Both look while they hold the lock of the name, in
// whatever case it is written.
const lockName = `SELECT pg_advisory_xact_lock(hashtextextended('holdfast name ' || lower($1), 0))`

const tokenHasName = `
SELECT EXISTS (SELECT FROM catalog.tokens WHERE lower(name) = lower($1) AND namespace = ANY ($2)
	AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp()))`

const personHasName = `
SELECT EXISTS (SELECT FROM catalog.sessions WHERE namespaces @> ARRAY[$2] AND lower(name) = lower($1) AND token_id IS NULL
	AND revoked_at IS NULL AND least(expires_at, last_seen_at + idle) > clock_timestamp())`

const (
	sweepSessions = `DELETE FROM catalog.sessions WHERE id IN (SELECT id FROM catalog.sessions WHERE expires_at < clock_timestamp() - interval '30 days' ORDER BY expires_at LIMIT 100)`
	sweepSignIns  = `DELETE FROM catalog.sign_ins WHERE state IN (SELECT state FROM catalog.sign_ins WHERE at < clock_timestamp() - interval '1 day' ORDER BY at LIMIT 100)`
)

const sessionColumns = `id, namespace, role, name, groups, grants, coalesce(token_id, ''), issuer, subject, user_agent, created_at, last_seen_at,
	least(expires_at, last_seen_at + idle), expires_at, extract(epoch FROM idle)::float8, revoked_at, coalesce(revoked_by, '')`

const insertSession = `
INSERT INTO catalog.sessions (id, hash, namespace, role, name, groups, grants, namespaces, token_id, issuer, subject, user_agent, expires_at, idle)
VALUES ($1, $2, $3, $4, $5, coalesce($6::text[], '{}'), $7, $8, nullif($9, ''), $10, $11, $12, clock_timestamp() + make_interval(secs => $13), make_interval(secs => $14))
RETURNING ` + sessionColumns

// AddSession implements console.SessionStore. How long it lasts counts by the
// database's clock.
func (s *Store) AddSession(ctx context.Context, n console.Session) (out console.Session, err error) {
	if len(n.Grants) == 0 {
		return out, errors.New("add session: it may be nothing")
	}
	id, err := uuid.NewV7()
	if err != nil {
		return out, err
	}
	var grants, namespaces []string
	for _, g := range n.Grants {
		grants, namespaces = append(grants, g.Namespace+"/"+g.Role), append(namespaces, g.Namespace)
	}
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if n.TokenID == "" {
			var taken bool
			if _, err := tx.Exec(ctx, lockName, n.Name); err != nil {
				return err
			}
			if err := tx.QueryRow(ctx, tokenHasName, n.Name, namespaces).Scan(&taken); err != nil {
				return err
			}
			if taken {
				return console.ErrNameTaken
			}
		}
		for _, sweep := range []string{sweepSessions, sweepSignIns} {
			if _, err := tx.Exec(ctx, sweep); err != nil {
				return err
			}
		}
		rows, err := tx.Query(ctx, insertSession, id.String(), n.Hash, n.Grants[0].Namespace, n.Grants[0].Role, n.Name, n.Groups, grants, namespaces,
			n.TokenID, n.Issuer, n.Subject, n.UserAgent, n.Lifetime.Seconds(), n.Idle.Seconds())
		if err != nil {
			return err
		}
		out, err = pgx.CollectExactlyOneRow(rows, scanSession)
		return err
	})
	if err != nil {
		return out, fmt.Errorf("add session: %w", err)
	}
	return out, nil
}

const finishSignIn = `INSERT INTO catalog.sign_ins (state) VALUES ($1) ON CONFLICT DO NOTHING`

// FinishSignIn implements console.SessionStore.
func (s *Store) FinishSignIn(ctx context.Context, state []byte) (bool, error) {
	tag, err := s.pool.Exec(ctx, finishSignIn, state)
	if err != nil {
		return false, fmt.Errorf("finish sign-in: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

const turnSession = `
UPDATE catalog.sessions SET hash = $2, namespace = $3, role = $4
 WHERE id = $1 AND grants @> ARRAY[$3 || '/' || $4] AND token_id IS NULL AND revoked_at IS NULL AND least(expires_at, last_seen_at + idle) > clock_timestamp()`

// TurnSession implements console.SessionStore.
func (s *Store) TurnSession(ctx context.Context, id string, hash []byte, to console.SessionGrant) error {
	tag, err := s.pool.Exec(ctx, turnSession, id, hash, to.Namespace, to.Role)
	if err != nil {
		return fmt.Errorf("turn session %s: %w", id, err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("turn session %s: %w", id, console.ErrNotFound)
	}
	return nil
}

// sameOwner holds for sessions of the person or the token of the session $3; empty: of all.
const sameOwner = `($3 = '' OR EXISTS (SELECT FROM catalog.sessions o WHERE o.id = $3
	AND o.issuer = s.issuer AND o.subject = s.subject AND o.token_id IS NOT DISTINCT FROM s.token_id))`

const listSessions = `SELECT ` + sessionColumns + ` FROM catalog.sessions s
 WHERE namespaces @> ARRAY[$1] AND id > $2 AND ` + sameOwner + ` AND revoked_at IS NULL AND least(expires_at, last_seen_at + idle) > clock_timestamp()
   AND NOT EXISTS (SELECT FROM catalog.tokens t WHERE t.id = s.token_id AND (t.revoked_at IS NOT NULL OR t.expires_at <= clock_timestamp()))
 ORDER BY id LIMIT $4`

// Sessions implements console.SessionStore.
func (s *Store) Sessions(ctx context.Context, f console.SessionFilter) ([]console.Session, error) {
	rows, err := s.pool.Query(ctx, listSessions, f.Namespace, f.After, f.Of, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	out, err := pgx.CollectRows(rows, scanSession)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	return out, nil
}

// The first revocation stays.
const revokeSession = `
UPDATE catalog.sessions s
   SET revoked_at = coalesce(revoked_at, clock_timestamp()), revoked_by = coalesce(revoked_by, $4)
 WHERE namespaces @> ARRAY[$1] AND id = $2 AND ` + sameOwner + `
RETURNING ` + sessionColumns

// RevokeSession implements console.SessionStore.
func (s *Store) RevokeSession(ctx context.Context, namespace, id, by, of string) (console.Session, error) {
	rows, err := s.pool.Query(ctx, revokeSession, namespace, id, of, by)
	if err != nil {
		return console.Session{}, fmt.Errorf("revoke session %s: %w", id, err)
	}
	out, err := pgx.CollectExactlyOneRow(rows, scanSession)
	return out, notFound(err, "revoke session %s", id)
}

func scanSession(row pgx.CollectableRow) (console.Session, error) {
	var s console.Session
	var grants []string
	var revoked *time.Time
	var idle float64
	err := row.Scan(&s.ID, &s.Namespace, &s.Role, &s.Name, &s.Groups, &grants, &s.TokenID, &s.Issuer, &s.Subject, &s.UserAgent,
		&s.CreatedAt, &s.LastSeenAt, &s.EndsAt, &s.ExpiresAt, &idle, &revoked, &s.RevokedBy)
	for _, g := range grants {
		namespace, role, _ := strings.Cut(g, "/")
		s.Grants = append(s.Grants, console.SessionGrant{Namespace: namespace, Role: role})
	}
	s.CreatedAt, s.LastSeenAt, s.EndsAt, s.ExpiresAt, s.RevokedAt = s.CreatedAt.UTC(), s.LastSeenAt.UTC(), s.EndsAt.UTC(), s.ExpiresAt.UTC(), orZero(revoked)
	s.Idle = time.Duration(idle * float64(time.Second))
	return s, err
}
