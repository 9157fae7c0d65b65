package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

const orderedDeletions = `
SELECT o.run_id, o.principal, o.reason FROM console.v_deletions o WHERE o.run_id > $1 ORDER BY o.run_id LIMIT $2`

// Ordered implements runner.Deleter.
func (s *Store) Ordered(ctx context.Context, after events.RunID, limit int) ([]runner.Deletion, error) {
	rows, err := s.pool.Query(ctx, orderedDeletions, string(after), limit)
	if err != nil {
		return nil, fmt.Errorf("list ordered deletions: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[runner.Deletion])
}

// treesOf lists what goes with each of the asked runs that no run started. A run whose
// parent was deleted before it was there counts as one of those.
const treesOf = `
WITH RECURSIVE tree AS (
    SELECT r.run_id AS root, r.run_id FROM runner.runs r
     WHERE r.run_id = ANY ($1::text[]) AND NOT EXISTS (SELECT FROM runner.runs p WHERE p.run_id = r.parent_run_id)
    UNION ALL
    SELECT t.root, c.run_id FROM tree t JOIN runner.runs c ON c.parent_run_id = t.run_id)
SELECT root, run_id FROM tree ORDER BY run_id`

const lockTrees = `SELECT 1 FROM runner.runs WHERE run_id = ANY ($1::text[]) ORDER BY run_id FOR UPDATE`

// owing lists the asked runs under which something is not over. A claim of a worker
// that is gone for a minute is nobody's.
const owing = `
SELECT DISTINCT t.root FROM unnest($1::text[], $2::text[]) AS t(root, run_id) LEFT JOIN runner.runs r ON r.run_id = t.run_id
 WHERE r.ended_at IS NULL
    OR EXISTS (SELECT FROM runner.workers w WHERE w.name = r.claim_worker AND w.beat > clock_timestamp() - interval '1 min')
    OR EXISTS (SELECT FROM runner.pending p WHERE p.run_id = t.run_id)
    OR EXISTS (SELECT FROM runner.notices n WHERE n.next_announce_at IS NOT NULL AND n.body->>'run_id' = t.run_id)
    OR EXISTS (SELECT FROM tools.v_calls c WHERE c.run_id = t.run_id AND c.status = 'open')
    OR EXISTS (SELECT FROM approvals.v_requests q WHERE q.run_id = t.run_id AND q.state = 'pending')`

// deleteTrees makes each row one that says that the run was deleted. What it cost stays,
// without what tells of whom. The counter's row is held until the commit, so whoever reads
// deletions by n misses none.
const deleteTrees = `
WITH asked AS (SELECT DISTINCT ON (root) * FROM unnest($3::text[], $4::text[], $5::text[]) AS a(root, by, reason)),
tree AS (SELECT * FROM unnest($1::text[], $2::text[]) AS t(root, run_id)),
gone AS (DELETE FROM runner.runs r USING tree t WHERE r.run_id = t.run_id
    RETURNING r.run_id, t.root, r.namespace, r.kind, r.name, r.status, r.ended_at),
spent AS (UPDATE runner.spend s SET flow = CASE WHEN s.root_run_id = s.run_id THEN '' ELSE '(deleted)' END, trigger = '(deleted)', labels = NULL FROM tree t WHERE s.run_id = t.run_id),
counted AS (UPDATE runner.deletions SET last = last + (SELECT count(*) FROM gone) RETURNING last)
INSERT INTO runner.deleted (run_id, n, root_run_id, namespace, kind, name, status, ended_at, deleted_by, reason)
SELECT g.run_id, c.last + 1 - row_number() OVER (ORDER BY g.run_id DESC), g.root, g.namespace, g.kind, g.name, g.status, g.ended_at, a.by, a.reason
FROM gone g JOIN asked a ON a.root = g.root CROSS JOIN counted c
RETURNING run_id`

// Delete implements runner.Deleter.
func (s *Store) Delete(ctx context.Context, list []runner.Deletion) (gone []events.RunID, err error) {
	var asked, by, reasons []string
	for _, d := range list {
		asked, by, reasons = append(asked, string(d.RunID)), append(by, d.By), append(reasons, d.Reason)
	}
	err = pg.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		gone = nil
		roots, runs, err := trees(ctx, tx, asked)
		if err != nil || len(runs) == 0 {
			return err
		}
		if _, err := tx.Exec(ctx, lockTrees, runs); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, owing, roots, runs)
		if err != nil {
			return err
		}
		stay, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		if roots, runs = without(roots, runs, stay); len(runs) == 0 {
			return nil
		}
		if rows, err = tx.Query(ctx, deleteTrees, roots, runs, asked, by, reasons); err != nil {
			return err
		}
		gone, err = pgx.CollectRows(rows, pgx.RowTo[events.RunID])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("delete %d runs: %w", len(list), err)
	}
	return gone, nil
}

func trees(ctx context.Context, tx pgx.Tx, asked []string) (roots, runs []string, err error) {
	rows, err := tx.Query(ctx, treesOf, asked)
	if err != nil {
		return nil, nil, err
	}
	var root, run string
	if _, err = pgx.ForEachRow(rows, []any{&root, &run}, func() error {
		roots, runs = append(roots, root), append(runs, run)
		return nil
	}); err != nil || len(runs) <= manyRuns {
		return roots, runs, err
	}
	// The others are for the next look.
	size := map[string]int{}
	for _, root := range roots {
		size[root]++
	}
	var later []string
	total := 0
	for _, root := range slices.Sorted(maps.Keys(size)) {
		if total += size[root]; total > manyRuns && total > size[root] {
			later = append(later, root)
		}
	}
	roots, runs = without(roots, runs, later)
	return roots, runs, nil
}

// manyRuns is how many runs one transaction deletes, but for one tree that has more.
const manyRuns = 10_000

// without drops the runs whose root is one of stay.
func without(roots, runs, stay []string) (r, u []string) {
	kept := map[string]bool{}
	for _, root := range stay {
		kept[root] = true
	}
	for i, root := range roots {
		if !kept[root] {
			r, u = append(r, root), append(u, runs[i])
		}
	}
	return r, u
}

const (
	owedPurges = `SELECT run_id, namespace, ended_at FROM runner.deleted WHERE purged_at IS NULL ORDER BY n LIMIT 100 FOR UPDATE SKIP LOCKED`
	purgeSlice = `SELECT runner.purge($1::text[], $2::int)`
	// purgeRest deletes what is little: nothing of it grows with the run.
	purgeRest = `
WITH timers AS (DELETE FROM runner.timers WHERE run_id = ANY ($1::text[])),
slots AS (DELETE FROM runner.slots WHERE run_id = ANY ($1)),
waits AS (DELETE FROM runner.pool_waits WHERE run_id = ANY ($1)),
pauses AS (DELETE FROM runner.pool_pauses WHERE run_id = ANY ($1)),
turns AS (DELETE FROM runner.model_turns WHERE run_id = ANY ($1)),
trees AS (DELETE FROM runner.trees WHERE root_run_id = ANY ($1)),
told AS (DELETE FROM runner.notices WHERE notice_id = ANY ($2::text[])),
alerts AS (DELETE FROM runner.alerts WHERE (namespace, pool) IN (SELECT * FROM unnest($3::text[], $4::text[])) AND (pool LIKE 'flow-%' OR window_start = ANY ($1))),
pools AS (DELETE FROM runner.pools WHERE (namespace, pool) IN (SELECT * FROM unnest($3::text[], $4::text[])) AND pool LIKE 'flow-%')
UPDATE runner.deleted SET purged_at = clock_timestamp() WHERE run_id = ANY ($1)`
)

// budgetUnits are the units of ceilings that are named after a run.
var budgetUnits = []string{"tokens", "micro_usd", "modelCalls", "toolCalls", "steps", "seconds"}

// ownCeilings are the names of a run's own ceilings.
var ownCeilings = []string{"toolCalls", "modelCalls", "tokens", "steps", "cost", "wallTime"}

// Purge implements runner.Deleter. What one process is at, others pass by.
func (s *Store) Purge(ctx context.Context, most int) (clean []runner.PurgedRun, more bool, err error) {
	err = pg.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		clean, more = nil, false
		rows, err := tx.Query(ctx, owedPurges)
		if err != nil {
			return err
		}
		var runs, namespaces []string
		var owed []runner.PurgedRun
		var run, namespace string
		var ended time.Time
		if _, err = pgx.ForEachRow(rows, []any{&run, &namespace, &ended}, func() error {
			runs, namespaces, owed = append(runs, run), append(namespaces, namespace), append(owed, runner.PurgedRun{RunID: events.RunID(run), EndedAt: ended})
			return nil
		}); err != nil || len(runs) == 0 {
			return err
		}
		more = true
		var gone int
		if err := tx.QueryRow(ctx, purgeSlice, runs, most).Scan(&gone); err != nil || gone > 0 {
			return err
		}
		var notices, of, pools []string
		for i, run := range runs {
			for _, reason := range events.NoticeReasons {
				notices = append(notices, string(events.RunNotice(events.RunID(run), reason)))
			}
			for _, unit := range budgetUnits {
				of, pools = append(of, namespaces[i]), append(pools, events.FlowPool(events.RunID(run), unit))
			}
			for _, name := range ownCeilings {
				of, pools = append(of, namespaces[i]), append(pools, ownPrefix+name)
			}
		}
		clean = owed
		_, err = tx.Exec(ctx, purgeRest, runs, notices, of, pools)
		return err
	})
	if err != nil {
		return nil, false, fmt.Errorf("purge deleted runs: %w", err)
	}
	return clean, more, nil
}

// A run that another one started goes with that one. The clock is read once, here and
// below: only what stands still is a place in an index, and else all of it is read.
const endedBefore = `
SELECT r.run_id, r.namespace, r.kind, r.name, r.status, r.ended_at, extract(epoch FROM clock_timestamp() - r.ended_at)::bigint FROM runner.runs r
 WHERE r.ended_at < (SELECT clock_timestamp()) - $1::bigint * interval '1 second' AND (r.ended_at, r.run_id) > ($2, $3)
   AND NOT EXISTS (SELECT FROM runner.runs p WHERE p.run_id = r.parent_run_id)
 ORDER BY r.ended_at, r.run_id LIMIT $4`

// EndedBefore implements runner.Deleter.
func (s *Store) EndedBefore(ctx context.Context, age time.Duration, after runner.EndedRun, limit int) ([]runner.EndedRun, error) {
	rows, err := s.pool.Query(ctx, endedBefore, int64(age/time.Second), after.EndedAt, string(after.RunID), limit)
	if err != nil {
		return nil, fmt.Errorf("list runs that ended: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r runner.EndedRun, err error) {
		var seconds int64
		err = row.Scan(&r.RunID, &r.Namespace, &r.Ref.Kind, &r.Ref.Name, &r.Status, &r.EndedAt, &seconds)
		r.Age = time.Duration(seconds) * time.Second
		return r, err
	})
}

const forgetDeleted = `
DELETE FROM runner.deleted WHERE run_id IN (
    SELECT run_id FROM runner.deleted WHERE purged_at < (SELECT clock_timestamp()) - $1::bigint * interval '1 second' ORDER BY purged_at LIMIT $2 FOR UPDATE SKIP LOCKED)`

// ForgetDeleted implements runner.Deleter.
func (s *Store) ForgetDeleted(ctx context.Context, age time.Duration, limit int) (int, error) {
	tag, err := s.pool.Exec(ctx, forgetDeleted, int64(age/time.Second), limit)
	if err != nil {
		return 0, fmt.Errorf("forget deleted runs: %w", err)
	}
	return int(tag.RowsAffected()), nil
}

// forgetSpend looks into each namespace by itself, as the index has it.
const forgetSpend = `
WITH RECURSIVE spaces AS (
    (SELECT namespace FROM runner.spend ORDER BY namespace LIMIT 1) UNION ALL
    SELECT (SELECT s.namespace FROM runner.spend s WHERE s.namespace > n.namespace ORDER BY s.namespace LIMIT 1) FROM spaces n WHERE n.namespace IS NOT NULL)
DELETE FROM runner.spend WHERE (run_id, model, hour) IN (
    SELECT o.run_id, o.model, o.hour FROM spaces n CROSS JOIN LATERAL (
        SELECT s.run_id, s.model, s.hour FROM runner.spend s
         WHERE s.namespace = n.namespace AND s.hour < (SELECT clock_timestamp()) - $1::bigint * interval '1 second' ORDER BY s.hour LIMIT $2) o LIMIT $2)`

// ForgetSpend implements runner.Deleter.
func (s *Store) ForgetSpend(ctx context.Context, age time.Duration, limit int) (int, error) {
	tag, err := s.pool.Exec(ctx, forgetSpend, int64(age/time.Second), limit)
	if err != nil {
		return 0, fmt.Errorf("forget what was spent: %w", err)
	}
	return int(tag.RowsAffected()), nil
}
