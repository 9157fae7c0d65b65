package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/services/console"
)

const tokenColumns = `id, namespace, role, name, created_at, created_by, expires_at, revoked_at, coalesce(revoked_by, ''), groups`

const insertToken = `
INSERT INTO catalog.tokens (id, hash, namespace, role, name, created_by, expires_at, groups)
VALUES ($1, $2, $3, $4, $5, $6, $7, coalesce($8::text[], '{}'))
RETURNING ` + tokenColumns

// AddToken implements console.TokenStore.
func (s *Store) AddToken(ctx context.Context, t console.Token) (console.Token, error) {
	var out console.Token
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var taken bool
		if _, err := tx.Exec(ctx, lockName, t.Name); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, personHasName, t.Name, t.Namespace).Scan(&taken); err != nil {
			return err
		}
		if taken {
			return console.ErrNameTaken
		}
		rows, err := tx.Query(ctx, insertToken, t.ID, t.Hash, t.Namespace, t.Role, t.Name, t.CreatedBy, orNull(t.ExpiresAt), t.Groups)
		if err != nil {
			return err
		}
		out, err = pgx.CollectExactlyOneRow(rows, scanToken)
		return err
	})
	if err != nil {
		return console.Token{}, fmt.Errorf("add token: %w", err)
	}
	return out, nil
}

const listTokens = `SELECT ` + tokenColumns + ` FROM catalog.tokens WHERE namespace = $1 AND id > $2 ORDER BY id LIMIT $3`

// Tokens implements console.TokenStore.
func (s *Store) Tokens(ctx context.Context, namespace, after string, limit int) ([]console.Token, error) {
	rows, err := s.pool.Query(ctx, listTokens, namespace, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	out, err := pgx.CollectRows(rows, scanToken)
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	return out, nil
}

// The first revocation stays: who and when do not change afterwards.
const revokeToken = `
UPDATE catalog.tokens
   SET revoked_at = coalesce(revoked_at, clock_timestamp()), revoked_by = coalesce(revoked_by, $3)
 WHERE namespace = $1 AND id = $2
RETURNING ` + tokenColumns

// RevokeToken implements console.TokenStore.
func (s *Store) RevokeToken(ctx context.Context, namespace, id, by string) (console.Token, error) {
	rows, err := s.pool.Query(ctx, revokeToken, namespace, id, by)
	if err != nil {
		return console.Token{}, fmt.Errorf("revoke token %s: %w", id, err)
	}
	t, err := pgx.CollectExactlyOneRow(rows, scanToken)
	return t, notFound(err, "revoke token %s", id)
}

func scanToken(row pgx.CollectableRow) (console.Token, error) {
	var t console.Token
	var expires, revoked *time.Time
	err := row.Scan(&t.ID, &t.Namespace, &t.Role, &t.Name, &t.CreatedAt, &t.CreatedBy, &expires, &revoked, &t.RevokedBy, &t.Groups)
	t.CreatedAt, t.ExpiresAt, t.RevokedAt = t.CreatedAt.UTC(), orZero(expires), orZero(revoked)
	return t, err
}
