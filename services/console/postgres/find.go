package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

// finder collects conditions over the three places where runs are: the runner's, starts
// that no runner has taken, and programs' own. "?" stands for the argument.
type finder struct {
	taken, queued, programs []string
	args                    []any
}

func (q *finder) add(taken, queued, programs string, arg any) {
	q.args = append(q.args, arg)
	n := fmt.Sprintf("$%d", len(q.args))
	q.taken = append(q.taken, strings.ReplaceAll(taken, "?", n))
	q.queued = append(q.queued, strings.ReplaceAll(queued, "?", n))
	q.programs = append(q.programs, strings.ReplaceAll(programs, "?", n))
}

// none leaves a place out, or all of it is read to find nothing.
const none = "false"

// find turns a filter into conditions from fixed parts, so that each combination gets a
// plan of its own: a label must use its index.
func find(f console.RunFilter) *finder {
	q := &finder{
		taken: []string{"r.namespace = $1"},
		queued: []string{"d.namespace = $1", "d.landed_at IS NULL",
			`NOT EXISTS (SELECT 1 FROM runner.v_runs x WHERE x.run_id = d.run_id COLLATE "default")`},
		programs: []string{"p.namespace = $1"},
		args:     []any{f.Namespace},
	}
	if f.Kind != "" {
		q.add("r.kind = ?", "d.ref_kind = ?", "'program' = ?::text", f.Kind)
	}
	if f.Name != "" {
		q.add("r.name = ?", "d.ref_name = ?", "p.name = ?", f.Name)
	}
	q.statuses(f)
	if f.Open {
		q.programs = append(q.programs, none)
	}
	if len(f.Labels) > 0 {
		q.add("r.labels @> ?::jsonb", "d.labels @> ?::jsonb", "p.labels @> ?::jsonb", f.Labels)
	}
	if f.TriggerKind != "" {
		q.add("r.trigger->>'kind' = ?", "d.source_kind = ?", "?::text IS NULL", f.TriggerKind)
	}
	if f.TriggerName != "" {
		q.add("r.trigger->>'name' = ?", "d.source_name = ?", "?::text IS NULL", f.TriggerName)
	}
	if !f.From.IsZero() {
		q.add("r.accepted_at >= ?", "d.accepted_at >= ?", "p.created_at >= ?", f.From)
	}
	if !f.To.IsZero() {
		q.add("r.accepted_at < ?", "d.accepted_at < ?", "p.created_at < ?", f.To)
		// What was accepted later is not read to be left out, as lists begin with the newest.
		q.add("r.run_id < ?", "d.run_id < ?", "p.run_id < ?", idAfter(f.To))
	}
	if f.MinCost > 0 { // what has not begun costs nothing; what programs spend we do not know
		q.add("r.cost_micro_usd >= ?", "?::bigint IS NULL", "?::bigint IS NULL", f.MinCost)
	}
	q.id(f.IDPart)
	for _, word := range f.Words {
		const in = "position(lower(?) IN lower("
		q.add(in+"r.name || ' ' || r.waiting || ' ' || r.labels::text)) > 0", in+"d.ref_name || ' ' || d.labels::text)) > 0", in+"p.name || ' ' || p.labels::text)) > 0", word)
	}
	if len(f.IDs) > 0 {
		q.add("r.run_id = ANY(?)", "d.run_id = ANY(?)", "p.run_id = ANY(?)", f.IDs)
	}
	if f.Parent != "" { // what no runner has is no child
		q.add("r.parent_run_id = ?", "? = ''", "? = ''", string(f.Parent))
	}
	if f.Before != "" {
		q.add("r.run_id < ?", "d.run_id < ?", "p.run_id < ?", string(f.Before))
	}
	if f.NotBefore != "" {
		q.add("r.run_id >= ?", "d.run_id >= ?", "p.run_id >= ?", string(f.NotBefore))
	}
	return q
}

func (q *finder) statuses(f console.RunFilter) {
	queued, open := false, f.Open || len(f.Statuses) > 0
	for _, status := range f.Statuses {
		queued = queued || status == events.StatusQueued
		open = open && (f.Open || !events.Ended(status))
	}
	if len(f.Statuses) > 0 {
		q.add("r.status = ANY(?)", "'queued' = ANY(?::text[])", "p.status = ANY(?)", f.Statuses)
	}
	if queued && len(f.Statuses) == 1 {
		// Those that wait for a place under a concurrency key; their index is small.
		q.taken = append(q.taken, "r.run_id IN (SELECT w.run_id FROM runner.v_slots w WHERE w.namespace = $1 AND NOT w.held AND w.replaced_by IS NULL)")
		q.programs = append(q.programs, none)
	}
	if open { // their index is small
		q.taken = append(q.taken, "r.ended_at IS NULL")
	}
}

// id finds by the beginning of an id, or by its end, which pages show.
func (q *finder) id(part string) {
	if part == "" {
		return
	}
	begins := "(%[1]s.run_id%[2]s >= ? AND %[1]s.run_id%[2]s <= ? || 'g' AND starts_with(%[1]s.run_id%[2]s, ?))"
	if len(part) == 8 {
		begins = "(" + begins + " OR right(%[1]s.run_id%[2]s, 8) = ?)"
	}
	q.add(fmt.Sprintf(begins, "r", ""), fmt.Sprintf(begins, "d", ""), fmt.Sprintf(begins, "p", ""), part)
}

// listRuns builds the list query.
func listRuns(f console.RunFilter) (query string, args []any) {
	q := find(f)
	q.args = append(q.args, f.Limit)
	limit := fmt.Sprintf("$%d", len(q.args))
	return `SELECT * FROM (` +
		`(` + listed(takenRuns) + ` WHERE ` + strings.Join(q.taken, " AND ") + ` ORDER BY r.run_id DESC LIMIT ` + limit + `) UNION ALL ` +
		`(` + listed(queuedRuns) + ` WHERE ` + strings.Join(q.queued, " AND ") + ` ORDER BY d.run_id DESC LIMIT ` + limit + `) UNION ALL ` +
		`(` + listed(programRuns) + ` WHERE ` + strings.Join(q.programs, " AND ") + ` ORDER BY p.run_id DESC LIMIT ` + limit + `)) runs
ORDER BY run_id DESC LIMIT ` + limit, q.args
}

// listed leaves the large columns out of a list.
func listed(columns string) string {
	return strings.NewReplacer("r.input, r.output,", "NULL::json, NULL::json,", "d.input, NULL::json,", "NULL::json, NULL::json,", "p.input, p.output,", "NULL::json, NULL::json,").Replace(columns)
}

// Runs implements console.RunReader.
func (s *Store) Runs(ctx context.Context, f console.RunFilter) ([]console.Run, error) {
	query, args := listRuns(f)
	rows, err := s.pool.Query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	runs, err := pgx.CollectRows(rows, scanRun)
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	return runs, nil
}

// nthRun builds the query for the n-th run of a filter that indexes answer.
func nthRun(f console.RunFilter, n int) (query string, args []any) {
	q := find(f)
	q.args = append(q.args, n-1)
	return fmt.Sprintf(`SELECT r.run_id FROM runner.v_runs r WHERE %s ORDER BY r.run_id DESC OFFSET $%d LIMIT 1`, strings.Join(q.taken, " AND "), len(q.args)), q.args
}

// NthRun implements console.RunReader.
func (s *Store) NthRun(ctx context.Context, f console.RunFilter, n int) (id events.RunID, err error) {
	query, args := nthRun(f, n)
	if err := s.pool.QueryRow(ctx, query, args...).Scan(&id); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", fmt.Errorf("find how far runs are looked for: %w", err)
	}
	return id, nil
}
