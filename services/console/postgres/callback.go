package postgres

import (
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

// callbackOfRun is the address as the runner has it, or as the door stored it
// for a run that no runner has taken, and what the ledger did about it.
const callbackOfRun = `
SELECT u.callback, coalesce(t.state, 'owed'), coalesce(t.attempts, 0), t.next_attempt_at, coalesce(t.last_error, '')
  FROM (SELECT r.callback FROM runner.v_callbacks r WHERE r.run_id = $1 AND r.namespace = $2
         UNION ALL
        SELECT d.callback FROM trigger.v_callbacks d WHERE d.run_id = $1 AND d.namespace = $2
         LIMIT 1) u
  LEFT JOIN tools.v_callbacks t ON t.run_id = $1 AND t.namespace = $2
 ORDER BY t.updated_at DESC LIMIT 1`

// queueCallback reads nothing for a run that names none.
func queueCallback(b *pgx.Batch, namespace string, id events.RunID, r *console.Run) {
	b.Queue(callbackOfRun, string(id), namespace).QueryRow(func(row pgx.Row) error {
		var c console.Callback
		var next *time.Time
		err := row.Scan(&c.URL, &c.State, &c.Attempts, &next, &c.LastError)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read callback: %w", err)
		}
		c.NextAttempt = orZero(next)
		r.Callback = &c
		return nil
	})
}
