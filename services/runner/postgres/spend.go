package postgres

import (
	"fmt"
	"strings"

	"github.com/holdfast-run/holdfast/services/runner"
)

// spendsOn is a part of a commit that adds what its rows used to runner.spend. Sums stop
// at the largest number: a report never keeps a run from going on. Its ten parameters
// come last.
const spendsOn = `,
spent AS (
    INSERT INTO runner.spend AS s (namespace, hour, run_id, root_run_id, agent, model, calls, input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, cost_micro_usd, cost_estimated_micro_usd)
    SELECT $11, date_trunc('hour', run.at, 'UTC'), run.run_id, %s, %s, m.*
      FROM run, unnest(%s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[]) m
    ON CONFLICT (run_id, model, hour) DO UPDATE SET %s)`

var (
	updateSpending         = spending(updateRun, 42)
	updateStartingSpending = spending(updateStarting, 45)
)

func spending(statement string, args int) string {
	const end = "\nSELECT claim_epoch, at FROM run"
	values := make([]any, 0, 11)
	for i := range 10 {
		values = append(values, fmt.Sprintf("$%d", args+1+i))
	}
	sums := make([]string, 0, 7)
	for _, c := range []string{"calls", "input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "cost_micro_usd", "cost_estimated_micro_usd"} {
		sums = append(sums, fmt.Sprintf("%[1]s = least(s.%[1]s::numeric + excluded.%[1]s, 9223372036854775807)::bigint", c))
	}
	return strings.TrimSuffix(statement, end) + fmt.Sprintf(spendsOn, append(values, strings.Join(sums, ", "))...) + end
}

// spends is the statement and the arguments of a commit, with what its rows used.
func spends(c runner.Commit, query string, args []any) (string, []any, error) {
	spent, err := runner.Spent(c.Facts)
	if err != nil || len(spent) == 0 {
		return query, args, err
	}
	var models []string
	var calls, in, read, written, out, cost, guess []int64
	for _, s := range spent {
		models, calls, in, read = append(models, s.Model), append(calls, s.Calls), append(in, s.InputTokens), append(read, s.CacheReadTokens)
		written, out, cost, guess = append(written, s.CacheWriteTokens), append(out, s.OutputTokens), append(cost, s.Cost), append(guess, s.Guess)
	}
	if query == updateStarting {
		query = updateStartingSpending
	} else {
		query = updateSpending
	}
	return query, append(args, string(c.After.Root()), c.After.Started.Ref.Name, models, calls, in, read, written, out, cost, guess), nil
}
