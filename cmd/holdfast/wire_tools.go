package main

import (
	"context"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/catalog"
	"github.com/holdfast-run/holdfast/internal/lifecycle"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/services/tools"
	"github.com/holdfast-run/holdfast/services/tools/httpapi"
	"github.com/holdfast-run/holdfast/services/tools/inbox"
	"github.com/holdfast-run/holdfast/services/tools/kind"
	"github.com/holdfast-run/holdfast/services/tools/postgres"
)

func (p *process) addTools() {
	var (
		pool  *pgxpool.Pool
		beat  *pg.Beat
		relay *pg.Relay
	)
	worker := pg.WorkerName("tools")
	p.pool("tools", &pool)
	p.heartbeat("tools", worker, &beat, p.services.ToolsPools...)
	p.needsBus("tools")
	p.part("tools-relay", func(context.Context) (lifecycle.Service, error) {
		relay = postgres.New(pool).NewRelay(p.bus.Publish)
		return runs("tools-relay", relay.Run), nil
	})
	var servers *kind.MCPServers
	p.addMCPServers(&pool, &servers)
	var svc *tools.Service
	p.part("tools", func(context.Context) (lifecycle.Service, error) {
		out, err := p.egress()
		if err != nil {
			return nil, err
		}
		limits, err := p.services.hostLimits()
		if err != nil {
			return nil, err
		}
		metrics, err := tools.NewMetrics(p.telemetry)
		if err != nil {
			return nil, err
		}
		store := postgres.New(pool)
		svc, err = tools.New(tools.Config{Worker: worker, Pools: p.services.ToolsPools, Slots: p.services.ToolsSlots, KeyRetention: p.services.ToolsKeyRetention, HostLimits: limits}, tools.Deps{
			Store:     store,
			Controls:  store,
			Reader:    store,
			Once:      store,
			Stops:     store,
			Replies:   store,
			PublicURL: p.publicURL(p.services.ToolsPublicURL),
			Tools:     toolDefinitions{catalog.New(pool)},
			Listing:   toolDefinitions{catalog.New(pool)},
			Offers:    &kind.Offers{Servers: servers, Bus: inbox.Requester(p.bus)},
			Callbacks: tools.Callbacks{Ends: store, Definition: toolDefinitions{catalog.New(pool)}.callback},
			Kinds: kind.All(kind.Config{
				Egress: out, LookupEnv: os.LookupEnv, ReadFile: os.ReadFile, Ends: store,
				MCP: servers, Bus: inbox.Requester(p.bus), Artifacts: store,
			}),
			Bus:     p.bus,
			Heart:   beat,
			Consume: inbox.Consume(p.bus, beat.Holding),
			Kick:    relay.Kick,
			Log:     p.log.With(telemetry.KeyService, "tools"),
			Metrics: metrics,
		})
		if err != nil {
			return nil, err
		}
		httpapi.Register(p.door("tools", pool), svc)
		return svc, nil
	})
	p.part("tools-keeper", func(context.Context) (lifecycle.Service, error) {
		return runs("tools-keeper", svc.Keep, p.forget(pool, "tools")), nil
	})
}
