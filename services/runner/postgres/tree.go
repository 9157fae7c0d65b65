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

// startsRuns is a part of a commit that starts runs: the table's bound fails the
// whole statement when there would be too many below the root. The three parameters
// come behind those of the statement.
const startsRuns = `,
tree AS (
    INSERT INTO runner.trees AS t (root_run_id, begun, most) SELECT $%d, $%d::bigint, $%d::bigint FROM run
    ON CONFLICT (root_run_id) DO UPDATE SET begun = t.begun + excluded.begun, most = excluded.most)`

var (
	createStarting = starting(createRun, 48)
	updateStarting = starting(updateRun, 42)
)

func starting(statement string, args int) string {
	const end = "\nSELECT claim_epoch, at FROM run"
	return strings.TrimSuffix(statement, end) + fmt.Sprintf(startsRuns, args+1, args+2, args+3) + end
}

// begins is the statement and the arguments of a commit, with what it starts.
func begins(c runner.Commit, plain, starts string, args []any) (string, []any) {
	n := c.BeginsRuns()
	if n <= 0 || c.MaxTreeRuns == 0 {
		return plain, args
	}
	return starts, append(args, string(c.After.Root()), n, c.MaxTreeRuns)
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
