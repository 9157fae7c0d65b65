package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// createStarting creates a run that starts others: the table's bound fails the whole
// statement when there would be too many below the root.
var createStarting = strings.Replace(createRun, endOfCreate, `,
tree AS (
    INSERT INTO runner.trees AS t (root_run_id, begun, most) SELECT $49, $50::bigint, $51::bigint FROM run
    ON CONFLICT (root_run_id) DO UPDATE SET begun = t.begun + excluded.begun, most = excluded.most)`+endOfCreate, 1)

// startsOf is how many runs a commit starts that are counted.
func startsOf(c runner.Commit) int64 {
	if c.MaxTreeRuns == 0 {
		return 0
	}
	return max(c.BeginsRuns(), 0)
}

// begins is the statement and the arguments that create a run, with what it starts.
func begins(c runner.Commit) (string, []any) {
	if n := startsOf(c); n > 0 {
		return createStarting, append(createArgs(c), string(c.After.Root()), n, c.MaxTreeRuns)
	}
	return createRun, createArgs(c)
}

const belowRoot = `SELECT begun FROM runner.trees WHERE root_run_id = $1`

// BelowRoot implements runner.Trees.
func (s *Store) BelowRoot(ctx context.Context, root events.RunID) (n int64, err error) {
	err = s.pool.QueryRow(ctx, belowRoot, string(root)).Scan(&n)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return 0, fmt.Errorf("count the runs below %s: %w", root, err)
	}
	return n, nil
}

func treeFull(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == "23514" && pgErr.ConstraintName == "trees_bound"
}
