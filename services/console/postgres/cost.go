package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/services/console"
)

// costGroups are what rows of what was spent are grouped by. All of it stands in them, so
// a report reads the rows of its window and nothing else.
var costGroups = map[string]string{
	console.CostByAgent:   "agent",
	console.CostByModel:   "model",
	console.CostByDay:     "(hour AT TIME ZONE 'UTC')::date",
	console.CostByFlow:    "flow",
	console.CostByTrigger: "trigger",
	console.CostByLabel:   "CASE WHEN labels IS NULL THEN '(deleted)' ELSE coalesce(labels->>$4, '') END",
}

const (
	costSums = `sum(calls) AS calls, sum(input_tokens) AS input_tokens, sum(cache_read_tokens) AS cache_read_tokens, sum(cache_write_tokens) AS cache_write_tokens,
       sum(output_tokens) AS output_tokens, sum(cost_micro_usd) AS cost_micro_usd, sum(cost_estimated_micro_usd) AS cost_estimated_micro_usd`
	costMost = 9223372036854775807
)

func costQuery(by string, order string) string {
	name := by
	if strings.HasPrefix(by, console.CostByLabel) {
		name = console.CostByLabel
	}
	written := "key"
	if name == console.CostByDay {
		written = "to_char(key, 'YYYY-MM-DD')" // each day once, not for each row
	}
	return fmt.Sprintf(`
WITH x AS (SELECT %s AS key, %s FROM runner.v_spend WHERE namespace = $1 AND hour >= $2 AND hour < $3 GROUP BY GROUPING SETS ((1), ()))
SELECT key IS NULL, coalesce(%s, ''), %s FROM x ORDER BY key IS NULL DESC, %s LIMIT %d`,
		costGroups[name], costSums, written, leastOf("calls", "input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "cost_micro_usd", "cost_estimated_micro_usd"), order, console.MaxCostRows+2)
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
