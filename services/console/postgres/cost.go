package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/services/console"
)

// What was spent is summed first and joined then: of the roots of runs there are few
// beside their rows. The run of a trigger or flow is the one at the top; of one that was
// deleted neither is known any more, nor its labels. A run that is its own top is below no flow.
var costGroups = map[string]struct{ of, join string }{
	console.CostByAgent: {"x.agent", ""},
	console.CostByModel: {"x.model", ""},
	console.CostByDay:   {"to_char(x.hour, 'YYYY-MM-DD')", ""},
	console.CostByFlow: {"CASE WHEN x.root_run_id = '' THEN '' WHEN r.run_id IS NULL THEN '(deleted)' WHEN r.kind = 'flow' THEN r.name ELSE '' END",
		"LEFT JOIN runner.v_runs r ON r.run_id = x.root_run_id"},
	console.CostByTrigger: {"CASE WHEN r.run_id IS NULL THEN '(deleted)' ELSE concat_ws(' ', r.trigger->>'kind', nullif(r.trigger->>'name', '')) END",
		"LEFT JOIN runner.v_runs r ON r.run_id = x.root_run_id"},
	console.CostByLabel: {"CASE WHEN r.run_id IS NULL THEN '(deleted)' ELSE coalesce(r.labels->>$4, '') END",
		"LEFT JOIN runner.v_runs r ON r.run_id = x.run_id"},
}

const (
	costSums = `sum(x.calls) AS calls, sum(x.input_tokens) AS input_tokens, sum(x.cache_read_tokens) AS cache_read_tokens, sum(x.cache_write_tokens) AS cache_write_tokens,
       sum(x.output_tokens) AS output_tokens, sum(x.cost_micro_usd) AS cost_micro_usd, sum(x.cost_estimated_micro_usd) AS cost_estimated_micro_usd`
	costMost = 9223372036854775807
)

func costQuery(by string, order string) string {
	name := by
	if strings.HasPrefix(by, console.CostByLabel) {
		name = console.CostByLabel
	}
	g := costGroups[name]
	inner := map[string]string{console.CostByAgent: "agent", console.CostByModel: "model", console.CostByDay: "date_trunc('day', hour, 'UTC') AT TIME ZONE 'UTC' AS hour",
		console.CostByFlow: "CASE WHEN root_run_id <> run_id THEN root_run_id ELSE '' END AS root_run_id", console.CostByTrigger: "root_run_id", console.CostByLabel: "run_id"}[name]
	key, _, _ := strings.Cut(inner, " AS ")
	return fmt.Sprintf(`
WITH x AS (SELECT %s, %s FROM runner.v_spend x WHERE namespace = $1 AND hour >= $2 AND hour < $3 GROUP BY %s),
sums AS (SELECT %s AS key, %s FROM x %s GROUP BY GROUPING SETS ((1), ()))
SELECT key IS NULL, coalesce(key, ''), %s FROM sums ORDER BY key IS NULL DESC, %s LIMIT %d`,
		inner, costSums, key, g.of, costSums, g.join, leastOf("calls", "input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "cost_micro_usd", "cost_estimated_micro_usd"), order, console.MaxCostRows+2)
}

func leastOf(columns ...string) string {
	out := make([]string, 0, len(columns))
	for _, c := range columns {
		out = append(out, fmt.Sprintf("least(coalesce(%s, 0), %d)::bigint", c, int64(costMost)))
	}
	return strings.Join(out, ", ")
}

// Cost implements console.CostReader.
func (s *Store) Cost(ctx context.Context, q console.CostQuery) (console.CostReport, error) {
	out := console.CostReport{CostQuery: q}
	order := "cost_micro_usd DESC, input_tokens + output_tokens DESC, key"
	if q.By == console.CostByDay {
		order = "key"
	}
	args := []any{q.Namespace, q.Since, q.Until}
	if label, ok := strings.CutPrefix(q.By, console.CostByLabel); ok {
		args = append(args, label)
	}
	rows, err := s.pool.Query(ctx, costQuery(q.By, order), args...)
	if err == nil {
		var total bool
		var r console.CostRow
		_, err = pgx.ForEachRow(rows, []any{&total, &r.Key, &r.Calls, &r.InputTokens, &r.CacheReadTokens, &r.CacheWriteTokens, &r.OutputTokens, &r.CostMicroUSD, &r.CostEstimatedMicroUSD}, func() error {
			switch {
			case total:
				out.Total = r
			case len(out.Rows) == console.MaxCostRows:
				out.More = true
			default:
				out.Rows = append(out.Rows, r)
			}
			return nil
		})
	}
	if err != nil {
		return out, fmt.Errorf("read the cost by %s: %w", q.By, err)
	}
	return out, nil
}
