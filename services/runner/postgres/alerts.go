package postgres

import (
	"context"
	"log/slog"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// Alerts returns the relay that publishes budget alerts to EVENTS.
func (s *Store) Alerts(publish func(context.Context, events.Message) error, log *slog.Logger) *pg.Relay {
	return &pg.Relay{Name: "runner-alerts", Load: s.DueAlerts, Mark: s.MarkAlerts, Publish: publish, Log: log}
}
