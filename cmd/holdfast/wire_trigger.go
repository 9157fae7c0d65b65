package main

import (
	"context"
	"os"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/catalog"
	"github.com/holdfast-run/holdfast/internal/lifecycle"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/trigger"
	"github.com/holdfast-run/holdfast/services/trigger/cron"
	"github.com/holdfast-run/holdfast/services/trigger/httpapi"
	"github.com/holdfast-run/holdfast/services/trigger/inbox"
	"github.com/holdfast-run/holdfast/services/trigger/postgres"
	"github.com/holdfast-run/holdfast/services/trigger/webhook"
)

func (p *process) addTrigger() {
	var pool *pgxpool.Pool
	p.pool("trigger", &pool)
	p.part("trigger", func(context.Context) (lifecycle.Service, error) {
		log := p.log.With(telemetry.KeyService, "trigger")
		metrics, err := trigger.NewMetrics(p.telemetry)
		if err != nil {
			return nil, err
		}
		store := postgres.New(pool).Measure(metrics)
		svc, err := trigger.New(p.services.Trigger, trigger.Parts{
			Store:       store,
			Definitions: startDefinitions{catalog.New(pool), &trigger.Aims{}},
			Providers:   webhook.All(),
			Planner:     cron.Planner{},
			Relay:       store.Relay(p.bus, log),
			Cancels:     store.CancelRelay(p.bus.Publish, log),
			Signals:     store.SignalRelay(p.bus.Publish, log),
			Inbox:       inbox.New(p.bus),
			Tail:        p.bus,
			Secrets:     p.secrets,
			Metrics:     metrics,
			Log:         log,
		})
		if err != nil {
			return nil, err
		}
		httpapi.Register(p.door("trigger", pool), svc)
		return svc, nil
	})
	p.part("trigger-forget", func(context.Context) (lifecycle.Service, error) {
		return runs("trigger-forget", p.forget(pool, "trigger")), nil
	})
}

// forget deletes what a service has of deleted runs.
func (p *process) forget(pool *pgxpool.Pool, schema string) func(context.Context) error {
	return func(ctx context.Context) error {
		return pg.Forget(ctx, pool, schema, p.log.With(telemetry.KeyService, schema))
	}
}

// resolveSecret reads a secret that a definition names, in this process.
func resolveSecret(r spec.SecretRef) (string, error) { return r.Resolve(os.LookupEnv, os.ReadFile) }

// runs makes a service of loops that end with their context.
func runs(name string, loops ...func(context.Context) error) lifecycle.Service {
	return lifecycle.Funcs{ServiceName: name, OnRun: func(ctx context.Context) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		var wg sync.WaitGroup
		for _, loop := range loops {
			wg.Go(func() {
				if err := loop(ctx); err != nil && ctx.Err() == nil {
					cancel(err)
				}
			})
		}
		wg.Wait()
		return context.Cause(ctx)
	}}
}
