// Package audit keeps what is done at the doors of all services in Postgres, through
// the two functions that the console's schema has for it. What is kept at once by
// many requests is one commit.
package audit

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/pg"
)

// Log is a door.Auditor. It is safe for concurrent use.
type Log struct {
	begin, end *pg.Group[door.AuditEntry, struct{}]
}

var _ door.Auditor = (*Log)(nil)

const (
	beginRows = `SELECT catalog.audit_begin($1)`
	endRows   = `SELECT catalog.audit_end($1)`
)

// New returns a log that writes through pool, whose role is that of a service with a door.
func New(pool *pgxpool.Pool) *Log {
	group := func(name, query string) *pg.Group[door.AuditEntry, struct{}] {
		return &pg.Group[door.AuditEntry, struct{}]{
			Name: name, Key: func(e door.AuditEntry) string { return e.ID },
			// A repeat after a lost reply changes nothing: a row is there, or has its end.
			Many: func(ctx context.Context, items []door.AuditEntry) ([]struct{}, error) {
				rows, err := json.Marshal(items)
				if err != nil {
					return nil, err
				}
				_, err = pool.Exec(ctx, query, string(rows))
				return make([]struct{}, len(items)), err
			},
		}
	}
	return &Log{begin: group("audit", beginRows), end: group("audit ends", endRows)}
}

// Begin implements door.Auditor.
func (l *Log) Begin(ctx context.Context, e door.AuditEntry) error {
	if _, err := l.begin.Do(ctx, e); err != nil {
		return fmt.Errorf("keep the act %s in the audit: %w", e.Action, err)
	}
	return nil
}

// End implements door.Auditor.
func (l *Log) End(ctx context.Context, e door.AuditEntry) error {
	if _, err := l.end.Do(ctx, e); err != nil {
		return fmt.Errorf("keep the end of the act %s in the audit: %w", e.Action, err)
	}
	return nil
}
