package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/internal/lifecycle"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/services/console"
	"github.com/holdfast-run/holdfast/services/console/httpapi"
	"github.com/holdfast-run/holdfast/services/console/postgres"
)

func (p *process) addConsole() {
	var pool *pgxpool.Pool
	p.pool("console", &pool)
	p.part("console", func(context.Context) (lifecycle.Service, error) {
		log := p.log.With(telemetry.KeyService, "console")
		metrics, err := console.NewMetrics(p.telemetry)
		if err != nil {
			return nil, err
		}
		store := postgres.New(pool)
		svc := console.New(console.Config{
			Store: store, Relay: store.NewRelay(p.bus.Publish, log), Tail: p.bus,
			Streams: streams{p.bus}, Pools: p.services.ToolsPools, CheckpointBytes: p.services.ConsoleCheckpointBytes, Metrics: metrics, Log: log,
		})
		how, err := p.signIn()
		if err != nil {
			return nil, err
		}
		httpapi.Register(p.door("console", pool), svc, how)
		return svc, nil
	})
	p.part("console-forget", func(context.Context) (lifecycle.Service, error) {
		return runs("console-forget", p.forget(pool, "console"), p.sweepAudit(postgres.New(pool))), nil
	})
}

// sweepAudit takes out of the audit what is too old, until its context ends.
func (p *process) sweepAudit(store *postgres.Store) func(context.Context) error {
	return func(ctx context.Context) error {
		for ctx.Err() == nil {
			more, err := store.SweepAudit(ctx, p.services.ConsoleAuditRetention)
			if err != nil && ctx.Err() == nil {
				p.log.Warn("old rows stay in the audit for now", telemetry.KeyService, "console", telemetry.KeyErr, err)
			}
			if !more {
				wait(ctx, 10*time.Minute)
			}
		}
		return nil
	}
}

// streams reads the backlog of a consumer.
type streams struct{ bus *bus.Bus }

var _ console.Streams = streams{}

// Lag implements console.Streams.
func (s streams) Lag(ctx context.Context, stream, durable string) (console.Lag, error) {
	l, err := s.bus.Lag(ctx, stream, durable)
	return console.Lag{Stream: stream, Durable: durable, Pending: l.Pending, AckPending: l.AckPending, Redelivered: l.Redelivered}, err
}
