package authn

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// cacheFor bounds how long a revoked token may still be honoured by a process
// that has just seen it valid.
const cacheFor = 2 * time.Second

// cacheSize bounds memory; a full cache is emptied, which costs one query per
// token in use.
const cacheSize = 4096

// Postgres verifies tokens against catalog.v_tokens and sessions against
// catalog.v_sessions. A valid one is
// remembered for two seconds at most, and never beyond its expiry; an unknown
// one is not remembered, so a new token works at once.
type Postgres struct {
	pool *pgxpool.Pool
	now  func() time.Time

	mu   sync.Mutex
	seen map[[sha256.Size]byte]seen
}

type seen struct {
	principal Principal
	until     time.Time
}

var _ Verifier = (*Postgres)(nil)

// NewPostgres returns a verifier that reads through pool, whose role may select
// from catalog.v_tokens.
func NewPostgres(pool *pgxpool.Pool) *Postgres {
	return &Postgres{pool: pool, now: time.Now, seen: map[[sha256.Size]byte]seen{}}
}

// The lifetime is computed by the database, so the clocks need not agree.
const verifyToken = `
SELECT name, namespace, role,
       least(extract(epoch FROM expires_at - clock_timestamp()), 3600)::float8 AS left_s, nullif(groups, '{}'), id, '', false
  FROM catalog.v_tokens
 WHERE hash = $1
   AND revoked_at IS NULL
   AND (expires_at IS NULL OR expires_at > clock_timestamp())`

const verifySession = `
SELECT name, namespace, role,
       least(extract(epoch FROM ends_at - clock_timestamp()), 3600)::float8 AS left_s, nullif(groups, '{}'), coalesce(token_id, ''), id,
       last_seen_at < clock_timestamp() - interval '1 minute'
  FROM catalog.v_sessions
 WHERE hash = $1
   AND revoked_at IS NULL
   AND ends_at > clock_timestamp()`

const sessionSeen = `SELECT catalog.session_seen($1)`

// Verify implements Verifier.
func (p *Postgres) Verify(ctx context.Context, token string) (Principal, error) {
	if !plausible(token) {
		return Principal{}, ErrUnknownToken
	}
	hash := HashToken(token)
	// The age counts from before the query: a revocation that commits while it
	// runs is seen two seconds later at the latest.
	asked := p.now()
	p.mu.Lock()
	hit, ok := p.seen[hash]
	p.mu.Unlock()
	if ok && asked.Before(hit.until) {
		return hit.principal, nil
	}

	var (
		found Principal
		role  string
		left  *float64
		stale bool
	)
	query := verifyToken
	if IsSession(token) {
		query = verifySession
	}
	err := p.pool.QueryRow(ctx, query, hash[:]).Scan(&found.Name, &found.Namespace, &role, &left, &found.Groups, &found.TokenID, &found.SessionID, &stale)
	if errors.Is(err, pgx.ErrNoRows) {
		p.forget(hash)
		return Principal{}, ErrUnknownToken
	}
	if err != nil {
		return Principal{}, fmt.Errorf("look up token: %w", err)
	}
	if found.Role, err = ParseRole(role); err != nil {
		return Principal{}, fmt.Errorf("token %q: %w", found.Name, err)
	}
	if stale {
		if _, err := p.pool.Exec(ctx, sessionSeen, hash[:]); err != nil {
			return Principal{}, fmt.Errorf("session is in use: %w", err)
		}
	}
	keep := cacheFor
	if left != nil {
		keep = min(keep, time.Duration(*left*float64(time.Second)))
	}
	p.remember(hash, seen{principal: found, until: asked.Add(keep)})
	return found, nil
}

func (p *Postgres) remember(hash [sha256.Size]byte, s seen) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.seen) >= cacheSize {
		clear(p.seen)
	}
	p.seen[hash] = s
}

func (p *Postgres) forget(hash [sha256.Size]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.seen, hash)
}
