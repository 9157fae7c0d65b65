package postgres

import (
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/services/console"
)

// Store implements console.Store. It is safe for concurrent use.
type Store struct {
	pool  *pgxpool.Pool
	keyed *pg.Keyed // for what people and programs read again and again
}

var _ console.Store = (*Store)(nil)

// New returns a store on pool, whose role is holdfast_console.
func New(pool *pgxpool.Pool) *Store { return &Store{pool: pool, keyed: pg.NewKeyed(pool)} }

// notFound turns "no rows" into console.ErrNotFound.
func notFound(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, pgx.ErrNoRows) {
		err = console.ErrNotFound
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func textOrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
