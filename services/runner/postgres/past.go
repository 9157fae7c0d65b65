package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

const loadHead = `SELECT min_reader FROM runner.runs WHERE run_id = $1 AND namespace = $2`

const loadAll = `
SELECT seq, kind, status, cause, inbound, worker, at, data
FROM runner.journal WHERE run_id = $1 ORDER BY seq`

const loadPast = `
SELECT call_id, tool, args_digest, minted_key, status, effect FROM tools.v_past WHERE run_id = $1 AND namespace = $2 ORDER BY call_id`

// Past implements runner.PastReader.
func (s *Store) Past(ctx context.Context, namespace string, id events.RunID) (runner.Past, error) {
	p := runner.Past{Namespace: namespace}
	var reader int
	err := s.pool.QueryRow(ctx, loadHead, string(id), namespace).Scan(&reader)
	if errors.Is(err, pgx.ErrNoRows) {
		return p, fmt.Errorf("run %s: %w", id, runner.ErrNoRun)
	}
	if err == nil && reader > s.reader {
		return p, fault.RetryAfter(time.Second, fmt.Errorf("past of run %s for reader %d: reader %d is needed: %w", id, s.reader, reader, runner.ErrNewer))
	}
	if err != nil {
		return p, fmt.Errorf("past of run %s: %w", id, err)
	}
	rows, err := s.pool.Query(ctx, loadAll, string(id))
	if err == nil {
		p.Rows, err = pgx.CollectRows(rows, scanFact)
	}
	if err != nil {
		return p, fmt.Errorf("past of run %s: %w", id, err)
	}
	if rows, err = s.pool.Query(ctx, loadPast, string(id), namespace); err == nil {
		p.Ledger, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (c runner.LedgerCall, err error) {
			err = row.Scan(&c.CallID, &c.Tool, &c.ArgsDigest, &c.Key, &c.Status, &c.Effect)
			return c, err
		})
	}
	if err != nil {
		return p, fmt.Errorf("ledger of run %s: %w", id, err)
	}
	return p, nil
}
