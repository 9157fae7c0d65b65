package postgres

import (
	"context"
	"fmt"

	"github.com/holdfast-run/holdfast/services/runner"
)

// Only what nobody has taken since is put back.
const putBackTimers = `
UPDATE runner.timers t SET next_try = clock_timestamp() + interval '1 s'
FROM unnest($1::text[], $2::text[], $3::int[]) AS back (run_id, timer, try)
WHERE t.run_id = back.run_id AND t.timer = back.timer AND t.tries = back.try`

// PutBackTimers implements runner.Store.
func (s *Store) PutBackTimers(ctx context.Context, taken []runner.DueTimer) error {
	var ids, names []string
	var tries []int
	for _, d := range taken {
		ids, names, tries = append(ids, string(d.RunID)), append(names, d.Timer.Name), append(tries, d.Try)
	}
	if _, err := s.pool.Exec(ctx, putBackTimers, ids, names, tries); err != nil {
		return fmt.Errorf("put back %d timers: %w", len(taken), err)
	}
	return nil
}

const putBackNudges = `
UPDATE runner.pending p SET nudges = nudges - 1, next_nudge = clock_timestamp() + interval '1 s'
FROM unnest($1::text[], $2::text[], $3::int[]) AS back (run_id, item, try)
WHERE p.run_id = back.run_id AND p.item = back.item AND p.nudges = back.try`

// PutBackNudges implements runner.Store.
func (s *Store) PutBackNudges(ctx context.Context, taken []runner.DueNudge) error {
	var ids, items []string
	var tries []int
	for _, d := range taken {
		ids, items, tries = append(ids, string(d.RunID)), append(items, d.Item), append(tries, d.Try)
	}
	if _, err := s.pool.Exec(ctx, putBackNudges, ids, items, tries); err != nil {
		return fmt.Errorf("put back %d questions about pending work: %w", len(taken), err)
	}
	return nil
}
