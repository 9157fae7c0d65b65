package main

import (
	"context"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/internal/catalog"
	"github.com/holdfast-run/holdfast/internal/lifecycle"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/services/runner"
	"github.com/holdfast-run/holdfast/services/runner/inbox"
	"github.com/holdfast-run/holdfast/services/runner/model"
	"github.com/holdfast-run/holdfast/services/runner/postgres"
)

func (p *process) addRunner() {
	var (
		pool  *pgxpool.Pool
		beat  *pg.Beat
		svc   *runner.Service
		store *postgres.Store
	)
	worker := pg.WorkerName("runner")
	p.pool("runner", &pool)
	p.heartbeat("runner", worker, &beat)
	p.needsBus("runner")
	p.part("runner", func(context.Context) (lifecycle.Service, error) {
		out, err := p.egress()
		if err != nil {
			return nil, err
		}
		metrics, err := runner.NewMetrics(p.telemetry)
		if err != nil {
			return nil, err
		}
		answers := p.model
		if answers == nil {
			answers = model.All(model.Env{LookupEnv: os.LookupEnv, ReadFile: os.ReadFile, Egress: out})
		}
		store = postgres.New(pool)
		svc = runner.New(p.services.Runner, runner.Deps{
			Worker:  worker,
			Store:   store,
			Bus:     p.bus,
			Heart:   beat,
			Defs:    runDefinitions{catalog.New(pool)},
			Model:   answers,
			Live:    p.bus,
			Events:  p.bus,
			Lag:     backlog{p.bus},
			Log:     p.log.With(telemetry.KeyService, "runner"),
			Metrics: metrics,
		})
		return runs("runner", svc.Run), nil
	})
	p.part("runner-alerts", func(context.Context) (lifecycle.Service, error) {
		return runs("runner-alerts", store.Alerts(p.bus.Publish, p.log.With(telemetry.KeyService, "runner")).Run), nil
	})
	p.part("runner-notices", func(context.Context) (lifecycle.Service, error) {
		return runs("runner-notices", store.Notices(p.bus.Publish, p.log.With(telemetry.KeyService, "runner")).Run), nil
	})
	p.part("runner-inbox", func(context.Context) (lifecycle.Service, error) {
		return inbox.New(p.bus, svc, p.services.Runner, store, beat.Holding), nil
	})
}

// backlog reads how much a consumer has to do.
type backlog struct{ bus *bus.Bus }

var _ runner.Lag = backlog{}

// Pending implements runner.Lag.
func (b backlog) Pending(ctx context.Context, stream, durable string) (uint64, error) {
	lag, err := b.bus.Lag(ctx, stream, durable)
	return lag.Pending, err
}
