package bench

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// queryStages measures what ended in a window by the times that rows have: all are
// of the database's clock, but for the moment a webhook was accepted.
const queryStages = `
WITH j AS (
    SELECT j.run_id, j.kind, j.at, j.data, lag(j.at) OVER w AS before, lag(j.at, 2) OVER w AS before2, lag(j.kind) OVER w AS after
      FROM runner.journal j JOIN runner.runs r USING (run_id)
     WHERE r.updated_at >= $1 AND ($3 = '' OR r.kind = $3)
    WINDOW w AS (PARTITION BY j.run_id ORDER BY j.seq)),
now AS (SELECT * FROM j WHERE at >= $1 AND at < $2),
took AS (
    SELECT 'claimed' AS stage, at - r.accepted_at AS d FROM now JOIN runner.runs r USING (run_id) WHERE now.kind = 'run_started'
    UNION ALL SELECT 'answered', at - before FROM now WHERE kind = 'model_answered'
    UNION ALL SELECT 'tool done', at - before FROM now WHERE kind = 'tool_completed' AND after = 'model_answered'
    UNION ALL SELECT 'turn', at - before2 FROM now WHERE kind = 'tool_completed' AND after = 'model_answered'
    UNION ALL SELECT 'intent', e.created_at - before FROM now JOIN tools.effects e ON e.call_id = now.data->>'call_id' WHERE kind = 'tool_completed' AND after = 'model_answered'
    UNION ALL SELECT 'acted', e.updated_at - e.created_at FROM now JOIN tools.effects e ON e.call_id = now.data->>'call_id' WHERE kind = 'tool_completed' AND after = 'model_answered'
    UNION ALL SELECT 'ended', at - before2 FROM now WHERE kind = 'run_completed'
    UNION ALL SELECT 'run', at - r.accepted_at FROM now JOIN runner.runs r USING (run_id) WHERE now.kind = 'run_completed')
` + percentiles

// percentiles of the lengths in took.
const percentiles = `
SELECT stage, count(*), extract(epoch FROM percentile_disc(0.5) WITHIN GROUP (ORDER BY d))::float8 * 1000, extract(epoch FROM percentile_disc(0.99) WITHIN GROUP (ORDER BY d))::float8 * 1000
  FROM took GROUP BY stage`

// queryFacts counts rows of journals, intents and outcomes.
const queryFacts = `
SELECT (SELECT count(*) FROM runner.journal WHERE at >= $1 AND at < $2)
     + (SELECT count(*) FROM tools.effects WHERE created_at >= $1 AND created_at < $2)
     + (SELECT count(*) FROM tools.effects WHERE state <> 'intent' AND updated_at >= $1 AND updated_at < $2)`

// stages reads what ended in a window, of runs of a kind ("" is both), in the order of
// the workload's stages, and how many facts were committed in it.
func (l *lab) stages(ctx context.Context, from, to time.Time, kind string) ([]Stage, int, error) {
	return l.stagesBy(ctx, queryStages, from, to, kind)
}

// stagesBy is stages by a query of one's own.
func (l *lab) stagesBy(ctx context.Context, query string, from, to time.Time, more ...any) (all []Stage, facts int, err error) {
	rows, err := l.pool.Query(ctx, query, append([]any{from, to}, more...)...)
	if err != nil {
		return nil, 0, err
	}
	if all, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Stage]); err != nil {
		return nil, 0, err
	}
	place := func(s Stage) int {
		at := slices.IndexFunc(l.w.Stages, func(d StageDoc) bool { return d.Name == s.Name })
		if at < 0 {
			at = len(l.w.Stages)
		}
		return at
	}
	slices.SortStableFunc(all, func(a, b Stage) int { return place(a) - place(b) })
	err = l.pool.QueryRow(ctx, queryFacts, from, to).Scan(&facts)
	return all, facts, err
}

// unit takes the percentiles of a row from the stage of that name, and those that the
// workload does not name away. It returns how many units there were.
func (r *Row) unit(w Workload, stages []Stage, name string) int {
	n := 0
	for _, s := range stages {
		if s.Name == name {
			n, r.P50Ms, r.P99Ms = s.N, s.P50Ms, s.P99Ms
		}
		if slices.ContainsFunc(w.Stages, func(d StageDoc) bool { return d.Name == s.Name }) {
			r.Stages = append(r.Stages, s)
		}
	}
	return n
}
