package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/holdfast-run/holdfast/internal/lifecycle"
	"github.com/holdfast-run/holdfast/internal/natsdev"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgdev"
	approvals "github.com/holdfast-run/holdfast/services/approvals/postgres"
	console "github.com/holdfast-run/holdfast/services/console/postgres"
	runner "github.com/holdfast-run/holdfast/services/runner/postgres"
	tools "github.com/holdfast-run/holdfast/services/tools/postgres"
	trigger "github.com/holdfast-run/holdfast/services/trigger/postgres"
)

// schemas returns the migrations of all services in the order in which they
// are applied: who reads another's view comes after it.
func schemas() []pg.Schema {
	return []pg.Schema{console.Migrations, trigger.Migrations, runner.Migrations, tools.Migrations, approvals.Migrations}
}

// addPostgres starts a private Postgres below the data directory, unless a
// database is given.
func (p *process) addPostgres() {
	if p.databaseURL != "" {
		return
	}
	p.part("postgres", func(ctx context.Context) (lifecycle.Service, error) {
		s, err := pgdev.Start(ctx, pgdev.Config{Dir: filepath.Join(p.dataDir, "postgres"), Log: p.log})
		if errors.Is(err, pgdev.ErrNotInstalled) {
			return nil, errors.Join(err, errors.New(`install it ("make setup", or: apt-get install postgresql), or give a server with --database-url`))
		}
		if err != nil {
			return nil, err
		}
		p.databaseURL = s.URL()
		return lifecycle.Funcs{ServiceName: "postgres", OnRun: s.Run, OnStop: s.Stop}, nil
	})
}

// addNATS starts a NATS inside the process, unless one is given.
func (p *process) addNATS() {
	if p.nats.NatsURL != "" {
		return
	}
	p.part("nats", func(ctx context.Context) (lifecycle.Service, error) {
		s, err := natsdev.Start(ctx, natsdev.Config{Dir: filepath.Join(p.dataDir, "nats"), DontListen: true, Log: p.log})
		if err != nil {
			return nil, err
		}
		p.inProcess = s.InProcess()
		p.health.Add("nats", s.Healthy)
		return lifecycle.Funcs{ServiceName: "nats", OnStop: func(ctx context.Context) error { return within(ctx, s.Stop) }}, nil
	})
}

// addMigration brings the database to this version before services start.
func (p *process) addMigration() {
	p.part("migrate", func(ctx context.Context) (lifecycle.Service, error) {
		if err := pg.Migrate(ctx, p.databaseURL, schemas()); err != nil {
			return nil, err
		}
		return lifecycle.Funcs{ServiceName: "migrate"}, nil
	})
}
