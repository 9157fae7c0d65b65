package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

const commandColumns = `id, namespace, run_id, kind, body, principal, coalesce(idempotency_key, ''), created_at, announce_count, landed_at IS NOT NULL, coalesce(place, 0)`

const commandByKey = `SELECT ` + commandColumns + ` FROM console.commands WHERE namespace = $1 AND idempotency_key = $2`

// placeTurn lets what gets a place among the orders to these runs be taken one after
// the other, to the end of the transaction.
const placeTurn = `
SELECT pg_advisory_xact_lock(turn) FROM (
    SELECT DISTINCT hashtextextended('console.message ' || run_id, 0) AS turn FROM unnest($1::text[]) AS r(run_id) ORDER BY turn) turns`

// nextPlace is the place of the next order to the run $3.
const nextPlace = `(SELECT coalesce(max(p.place), 0) + 1 FROM console.commands p WHERE p.run_id = $3 AND p.place IS NOT NULL)`

const insertCommand = `
INSERT INTO console.commands (id, namespace, run_id, kind, body, principal, idempotency_key, place)
VALUES ($1, $2, $3, $4, $5, $6, $7, CASE WHEN $8 THEN ` + nextPlace + ` END)
ON CONFLICT (namespace, idempotency_key) DO NOTHING
RETURNING ` + commandColumns

// AddCommand implements console.CommandStore.
func (s *Store) AddCommand(ctx context.Context, c console.Command) (stored console.Command, replayed bool, err error) {
	if err := pg.CleanJSON(c.Body); err != nil {
		return console.Command{}, false, fmt.Errorf("command on run %s: %w", c.RunID, err)
	}
	err = pg.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if c.Placed() {
			if err := takeTurn(ctx, tx, string(c.RunID)); err != nil {
				return err
			}
		}
		if stored, replayed, err = known(ctx, tx, c); err != nil || replayed {
			return err
		}
		var seq int64
		var status string
		if err := tx.QueryRow(ctx, headOfRun, c.RunID, c.Namespace).Scan(&seq, &status); err != nil {
			return notFound(err, "get run %s", c.RunID)
		}
		if events.Ended(status) {
			return fmt.Errorf("run %s is %s: %w", c.RunID, status, console.ErrEnded)
		}
		var program bool
		if err := tx.QueryRow(ctx, isProgram, c.RunID, c.Namespace).Scan(&program); err != nil {
			return err
		}
		if program {
			return fmt.Errorf("run %s: %w", c.RunID, console.ErrProgram)
		}
		find := func() (console.Command, bool, error) { return known(ctx, tx, c) }
		stored, replayed, err = insertOrFind(ctx, tx, find, insertCommand, c.ID, c.Namespace, c.RunID, c.Kind, c.Body, c.Principal, textOrNull(c.Key), c.Placed())
		return err
	})
	if err = s.orGone(ctx, c.Namespace, c.RunID, err); err != nil {
		return console.Command{}, false, fmt.Errorf("add command: %w", err)
	}
	return stored, replayed, nil
}

// takeTurn waits until no other transaction gives places among the orders to runs.
func takeTurn(ctx context.Context, tx pgx.Tx, runs ...string) error {
	_, err := tx.Exec(ctx, placeTurn, runs)
	return err
}

// insertOrFind inserts a command that was not there a moment ago. When another
// request has committed it since, that one is found.
func insertOrFind(ctx context.Context, tx pgx.Tx, find func() (console.Command, bool, error), insert string, args ...any) (stored console.Command, found bool, err error) {
	rows, err := tx.Query(ctx, insert, args...)
	if err != nil {
		return console.Command{}, false, err
	}
	stored, err = pgx.CollectExactlyOneRow(rows, scanCommand)
	if !errors.Is(err, pgx.ErrNoRows) {
		return stored, false, err
	}
	if stored, found, err = find(); err == nil && !found {
		err = errors.New("the command was neither inserted nor found")
	}
	return stored, found, err
}

// known finds the command that c's key stands for.
func known(ctx context.Context, tx pgx.Tx, c console.Command) (stored console.Command, found bool, err error) {
	if c.Key == "" {
		return console.Command{}, false, nil
	}
	rows, err := tx.Query(ctx, commandByKey, c.Namespace, c.Key)
	if err != nil {
		return console.Command{}, false, err
	}
	stored, err = pgx.CollectExactlyOneRow(rows, scanCommand)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return console.Command{}, false, nil
	case err != nil:
		return console.Command{}, false, err
	case !stored.Same(c):
		return console.Command{}, false, console.ErrKeyReused
	}
	return stored, true, nil
}

func scanCommand(row pgx.CollectableRow) (console.Command, error) {
	var c console.Command
	err := row.Scan(&c.ID, &c.Namespace, &c.RunID, &c.Kind, &c.Body, &c.Principal, &c.Key, &c.CreatedAt, &c.AnnounceCount, &c.Landed, &c.Place)
	c.CreatedAt = c.CreatedAt.UTC()
	return c, err
}
