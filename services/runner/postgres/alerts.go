package postgres

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// Alerts returns the relay that publishes budget alerts to EVENTS.
func (s *Store) Alerts(publish func(context.Context, events.Message) error, log *slog.Logger) *pg.Relay {
	return &pg.Relay{Name: "runner-alerts", Load: s.DueAlerts, Mark: s.MarkAlerts, Publish: publish, Log: log}
}

// ownPrefix marks alerts of a run's own ceilings; their window is the run.
const ownPrefix = "run:"

var insertOwnAlert = noticed(`
INSERT INTO runner.alerts (alert_id, namespace, pool, window_start, percent, ceiling, used, unit, passed_by)
VALUES (encode(sha256(convert_to(concat_ws('/', $1::text, $2::text, $3::text, $4::int, $5::bigint), 'UTF8')), 'hex'), $1, $2, $3, $4, $5, $6, $7, $3)
ON CONFLICT DO NOTHING`, "$8")

func insertOwn(ctx context.Context, tx pgx.Tx, st *runner.State, alerts []runner.Alert) error {
	for _, a := range alerts {
		if _, err := tx.Exec(ctx, insertOwnAlert, st.Namespace, ownPrefix+a.Name, string(st.RunID), a.Percent, a.Limit, a.Used, a.Unit, a.Channel); err != nil {
			return fmt.Errorf("alert of %s of run %s: %w", a.Name, st.RunID, err)
		}
	}
	return nil
}
