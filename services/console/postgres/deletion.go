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

const deletionColumns = `n, run_id, root_run_id, kind, name, status, ended_at, deleted_at, deleted_by, reason`

const (
	deletionOf  = `SELECT ` + deletionColumns + ` FROM runner.v_deleted WHERE run_id = $1 AND namespace = $2`
	deletionsOf = `SELECT ` + deletionColumns + ` FROM runner.v_deleted WHERE namespace = $1 AND ($2 = 0 OR n < $2) ORDER BY n DESC LIMIT $3`
	// parentOf is the run that started a run, if it is still there.
	parentOf = `
SELECT p.run_id FROM runner.v_runs r JOIN runner.v_runs p ON p.run_id = r.parent_run_id WHERE r.run_id = $1 AND r.namespace = $2`
	// livingBelow is a run of a tree that has not ended, and how many runs the tree has.
	livingBelow = `
WITH RECURSIVE tree AS (
	SELECT r.run_id, r.status, r.ended_at FROM runner.v_runs r WHERE r.run_id = $1 AND r.namespace = $2
	UNION ALL
	SELECT c.run_id, c.status, c.ended_at FROM tree t JOIN runner.v_runs c ON c.parent_run_id = t.run_id)
SELECT count(*), coalesce(min(run_id) FILTER (WHERE ended_at IS NULL), ''), coalesce(min(status) FILTER (WHERE ended_at IS NULL), '') FROM tree`
	orderDeletion = `INSERT INTO console.deletions (run_id, namespace, principal, reason) VALUES ($1, $2, $3, $4) ON CONFLICT (run_id) DO NOTHING`
	// orderDeletions leaves out what did not end, was started by a run or is a program's:
	// the runner looks at what is below.
	orderDeletions = `
WITH asked AS (SELECT * FROM unnest($1::text[], $2::text[]) AS a(run_id, reason)),
fit AS (SELECT a.* FROM asked a JOIN runner.v_runs r ON r.run_id = a.run_id
	 WHERE r.namespace = $3 AND r.ended_at IS NOT NULL AND NOT EXISTS (SELECT FROM runner.v_runs p WHERE p.run_id = r.parent_run_id)),
added AS (INSERT INTO console.deletions (run_id, namespace, principal, reason) SELECT run_id, $3, $4, reason FROM fit ORDER BY run_id ON CONFLICT (run_id) DO NOTHING)
SELECT run_id FROM fit`
)

func scanDeletion(row pgx.CollectableRow) (d console.Deletion, err error) {
	err = row.Scan(&d.N, &d.RunID, &d.Root, &d.Kind, &d.Name, &d.Status, &d.EndedAt, &d.DeletedAt, &d.By, &d.Reason)
	d.EndedAt, d.DeletedAt = d.EndedAt.UTC(), d.DeletedAt.UTC()
	return d, err
}

// gone returns *console.DeletedError for a run that was deleted.
func (s *Store) gone(ctx context.Context, namespace string, id events.RunID) error {
	rows, err := s.pool.Query(ctx, deletionOf, string(id), namespace)
	if err != nil {
		return fmt.Errorf("get run %s: %w", id, err)
	}
	d, err := pgx.CollectExactlyOneRow(rows, scanDeletion)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get run %s: %w", id, err)
	}
	return &console.DeletedError{Deletion: d}
}

// orGone is err, or what is known of the run if it is not found because it was deleted.
func (s *Store) orGone(ctx context.Context, namespace string, id events.RunID, err error) error {
	if !errors.Is(err, console.ErrNotFound) {
		return err
	}
	if gone := s.gone(ctx, namespace, id); gone != nil {
		return gone
	}
	return err
}

// OrderDeletion implements console.DeletionStore.
func (s *Store) OrderDeletion(ctx context.Context, o console.DeletionOrder) (runs int, err error) {
	if err := pg.CleanText(o.Reason); err != nil {
		return 0, fmt.Errorf("delete run %s: %w", o.RunID, err)
	}
	var seq int64
	var status string
	err = notFound(s.pool.QueryRow(ctx, headOfRun, string(o.RunID), o.Namespace).Scan(&seq, &status), "get run %s", o.RunID)
	if err = s.orGone(ctx, o.Namespace, o.RunID, err); err != nil {
		return 0, err
	}
	var program bool
	if err := s.pool.QueryRow(ctx, isProgram, string(o.RunID), o.Namespace).Scan(&program); err != nil {
		return 0, err
	}
	if program {
		return 0, &console.StaysError{RunID: o.RunID, Program: true}
	}
	stays := &console.StaysError{Parent: true}
	err = s.pool.QueryRow(ctx, parentOf, string(o.RunID), o.Namespace).Scan(&stays.RunID)
	if err == nil {
		return 0, stays
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return 0, fmt.Errorf("delete run %s: %w", o.RunID, err)
	}
	stays = &console.StaysError{}
	if err := s.pool.QueryRow(ctx, livingBelow, string(o.RunID), o.Namespace).Scan(&runs, &stays.RunID, &stays.Status); err != nil {
		return 0, fmt.Errorf("delete run %s: %w", o.RunID, err)
	}
	if runs == 0 { // no runner has it yet
		stays.RunID, stays.Status = o.RunID, status
	}
	if stays.RunID != "" {
		return 0, stays
	}
	if o.DryRun {
		return runs, nil
	}
	if _, err := s.pool.Exec(ctx, orderDeletion, string(o.RunID), o.Namespace, o.Principal, o.Reason); err != nil {
		return 0, fmt.Errorf("delete run %s: %w", o.RunID, err)
	}
	return runs, nil
}

// OrderDeletions implements console.DeletionStore. All of list are of one namespace and
// principal.
func (s *Store) OrderDeletions(ctx context.Context, list []console.DeletionOrder) (map[events.RunID]bool, error) {
	if len(list) == 0 {
		return nil, nil
	}
	var runs, reasons []string
	for _, o := range list {
		runs, reasons = append(runs, string(o.RunID)), append(reasons, o.Reason)
	}
	rows, err := s.pool.Query(ctx, orderDeletions, runs, reasons, list[0].Namespace, list[0].Principal)
	if err != nil {
		return nil, fmt.Errorf("delete %d runs: %w", len(list), err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[events.RunID])
	if err != nil {
		return nil, fmt.Errorf("delete %d runs: %w", len(list), err)
	}
	kept := make(map[events.RunID]bool, len(found))
	for _, id := range found {
		kept[id] = true
	}
	return kept, nil
}

// Deletions implements console.DeletionStore.
func (s *Store) Deletions(ctx context.Context, namespace string, before int64, limit int) ([]console.Deletion, error) {
	rows, err := s.pool.Query(ctx, deletionsOf, namespace, before, limit)
	if err != nil {
		return nil, fmt.Errorf("list deleted runs: %w", err)
	}
	return pgx.CollectRows(rows, scanDeletion)
}
