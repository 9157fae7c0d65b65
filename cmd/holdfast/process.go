package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"github.com/holdfast-run/holdfast/internal/audit"
	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/internal/lifecycle"
	"github.com/holdfast-run/holdfast/internal/menu"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/runner"
)

// process is one process while it is put together: what its parts share, and
// the parts in the order in which they start. A part is built when those before
// it run, so it may use what they have set.
type process struct {
	database DatabaseSettings
	nats     NatsSettings
	common   ProcessSettings
	services ServiceSettings
	running  []string // the services that share a connection to NATS
	dataDir  string   // of natsdev and pgdev

	certificates door.Certificates // of the doors

	log    *slog.Logger
	health lifecycle.Health
	group  lifecycle.Group

	// secrets resolves what webhooks sign with.
	secrets func(spec.SecretRef) (string, error)

	// model answers instead of the providers' adapters; nil: they do.
	model runner.Model

	// dev is who sends requests without a token on loopback; nil: nobody.
	dev *authn.Principal

	// Set while it starts.
	telemetry   *telemetry.Telemetry
	databaseURL config.Secret
	inProcess   nats.InProcessConnProvider
	bus         *bus.Bus
	doors       []*door.Door
	http        *door.Server
	reached     atomic.Value   // string: the URL of http, once it listens; of dev
	outgoing    *egress.Client // made by egress
}

// part adds a part that is made when everything before it has started.
func (p *process) part(name string, make func(context.Context) (lifecycle.Service, error)) {
	p.group.Add(&deferred{name: name, make: make})
}

// add adds the parts of targets in order.
func (p *process) add(names ...string) error {
	order, err := expand(names...)
	if err != nil {
		return err
	}
	for _, name := range order {
		targets[name].build(p)
	}
	return nil
}

// run runs the process until ctx ends or a part fails. ready is called when
// everything has started.
func (p *process) run(ctx context.Context, ready func()) error {
	p.health.SetStarting()
	p.group.OnReady = func() {
		p.health.SetStarted()
		ready()
	}
	p.group.OnStopping = func(reason error) {
		p.health.SetStopping()
		if reason != nil {
			p.log.Error("a part failed, stopping", telemetry.KeyErr, reason)
			return
		}
		p.log.Info("stopping", "grace", p.common.ShutdownGrace)
		time.Sleep(p.common.ShutdownDelay)
	}
	return p.group.Run(ctx, p.common.ShutdownGrace)
}

// addTelemetry must be added first: it reports until the last part has stopped.
func (p *process) addTelemetry(service string) {
	p.part("telemetry", func(ctx context.Context) (lifecycle.Service, error) {
		t, err := telemetry.Setup(ctx, telemetry.Config{Service: service, Version: buildVersion(), OTLPEndpoint: p.common.OTLPEndpoint})
		if err != nil {
			return nil, err
		}
		p.telemetry = t
		return lifecycle.Funcs{ServiceName: "telemetry", OnStop: func(ctx context.Context) error {
			// A collector that is away must not make a clean stop fail.
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			if err := t.Shutdown(ctx); err != nil {
				p.log.Warn("telemetry not delivered", telemetry.KeyErr, err)
			}
			return nil
		}}, nil
	})
}

// addHealth serves /live, /ready, /started and /metrics on addr.
func (p *process) addHealth(addr string) {
	p.part("health", func(context.Context) (lifecycle.Service, error) {
		return door.NewServer(addr, p.healthHandler()), nil
	})
}

func (p *process) healthHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", p.health.Handler())
	mux.Handle("GET /metrics", p.telemetry.MetricsHandler())
	return mux
}

// pool adds a service's connections. The pointer is set when the parts after it
// are made.
func (p *process) pool(service string, pool **pgxpool.Pool) {
	p.part(service+"-database", func(ctx context.Context) (lifecycle.Service, error) {
		c := p.database.config(p.databaseURL, service)
		if p.common.OTLPEndpoint != "" {
			c.Tracer = pg.NewTracer(p.telemetry.TracerProvider)
		}
		c.Named = service != "trigger" // which asks for plans that stay, of its inserts
		opened, err := pg.Open(ctx, c)
		if err != nil {
			return nil, err
		}
		*pool = opened
		p.health.Add(service+"-database", opened.Ping)
		return lifecycle.Funcs{ServiceName: service + "-database", OnStop: func(ctx context.Context) error {
			return within(ctx, opened.Close)
		}}, nil
	})
}

// within waits for f, which takes no context, until ctx ends.
func within(ctx context.Context, f func()) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// heartbeat adds the heartbeat of a worker.
func (p *process) heartbeat(service, worker string, beat **pg.Beat, pools ...string) {
	p.part(service+"-heartbeat", func(context.Context) (lifecycle.Service, error) {
		c := p.database.config(p.databaseURL, service)
		c.AppName = worker
		*beat = pg.NewBeat(c, service, worker, p.log)
		b := *beat
		b.Release(buildVersion())
		if len(pools) > 0 {
			b.Describe(strings.Join(pools, ","))
		}
		p.health.Add(service+"-heartbeat", func(context.Context) error {
			if !b.Fresh() {
				return fmt.Errorf("the last beat is %s old", b.Age().Round(time.Millisecond))
			}
			return nil
		})
		return b, nil
	})
}

// needsBus makes the process not ready while NATS is away. Only workers need
// it: a door accepts and answers without it.
func (p *process) needsBus(service string) {
	p.part(service+"-bus", func(context.Context) (lifecycle.Service, error) {
		p.health.Add(service+"-nats", p.bus.Ready)
		return lifecycle.Funcs{ServiceName: service + "-bus"}, nil
	})
}

// door adds the HTTP door of a service, which checks tokens through pool.
func (p *process) door(service string, pool *pgxpool.Pool) *door.Door {
	d := door.New(door.Config{
		Title: service, Version: buildVersion(), Verifier: authn.NewPostgres(pool), DevPrincipal: p.dev,
		MaxBody: p.services.MaxBody, BodyTimeout: p.services.BodyTimeout, SignIn: "/ui/sign-in", Secure: p.services.secure(), Audit: audit.New(pool), Counts: menu.New(pool).Counts, Log: p.log.With(telemetry.KeyService, service), Telemetry: p.telemetry,
	})
	p.doors = append(p.doors, d)
	return d
}

// addBus connects to NATS and sets up streams and consumers. It does not wait
// for a NATS that is away: doors answer without it, and what they accept is
// announced when it is back.
func (p *process) addBus() {
	p.part("bus", func(ctx context.Context) (lifecycle.Service, error) {
		c := p.nats.connection(p.running)
		c.InProcess, c.Log = p.inProcess, p.log
		if c.URL == "" && c.InProcess == nil {
			return nil, errors.New("no NATS: set --nats-url (HOLDFAST_NATS_URL), or start one with \"holdfast serve nats\"")
		}
		b, err := bus.Connect(ctx, c)
		if err != nil {
			return nil, err
		}
		p.bus = b
		provision := func(ctx context.Context) error { return b.Provision(ctx, p.services.ToolsPools) }
		provisioned := false
		return lifecycle.Funcs{
			ServiceName: "bus",
			OnStart: func(ctx context.Context) error {
				ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
				defer cancel()
				if err := provision(ctx); err == nil {
					provisioned = true
				} else if ctx.Err() == nil {
					return err
				} else {
					p.log.Warn("nats is away, going on without it", telemetry.KeyErr, err)
				}
				return nil
			},
			OnRun: func(ctx context.Context) error {
				for !provisioned && ctx.Err() == nil {
					if err := provision(ctx); err != nil {
						p.log.Warn("streams are not set up yet", telemetry.KeyErr, err)
						wait(ctx, time.Second)
						continue
					}
					provisioned = true
				}
				<-ctx.Done()
				return nil
			},
			OnStop: func(ctx context.Context) error { return within(ctx, b.Close) },
		}, nil
	})
}

// wait sleeps until d has passed or ctx ends.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// deferred is a part that is made when it starts.
type deferred struct {
	name string
	make func(context.Context) (lifecycle.Service, error)
	made lifecycle.Service
}

var _ lifecycle.Service = (*deferred)(nil)

func (d *deferred) Name() string { return d.name }

func (d *deferred) Start(ctx context.Context) (err error) {
	if d.made, err = d.make(ctx); err != nil {
		return err
	}
	return d.made.Start(ctx)
}

func (d *deferred) Run(ctx context.Context) error  { return d.made.Run(ctx) }
func (d *deferred) Stop(ctx context.Context) error { return d.made.Stop(ctx) }
