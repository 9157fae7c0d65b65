package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/lifecycle"
	"github.com/holdfast-run/holdfast/pkg/client"
)

// DevCmd runs everything in one process.
type DevCmd struct {
	File    []string `short:"f" placeholder:"DIR" help:"Store the definitions of this file or directory first. Repeatable."`
	DataDir string   `default:".holdfast" help:"Where NATS and Postgres keep their data between starts (${default})."`
	Listen  string   `group:"http" placeholder:"ADDR" help:"Where everything listens. Default: 127.0.0.1:8787, or the next free port."`

	DatabaseSettings
	NatsSettings
	ProcessSettings
	ServiceSettings
}

// Help implements kong.HelpProvider.
func (*DevCmd) Help() string {
	return `The same services as "holdfast serve", on a NATS and a Postgres that it starts
itself: Postgres from the machine's own binaries, on a socket of its own, so
servers that run already are left alone. You are admin, on this machine only.

  holdfast dev -f examples/competitor-monitor
  holdfast dev --database-url postgres://localhost/holdfast --nats-url nats://localhost

Ctrl-C lets work in flight finish; what has not finished goes on at the next
start. A second Ctrl-C leaves at once, and nothing is lost by that either.

To begin anew delete the data directory. Started by root below a directory that
others cannot enter, Postgres keeps its files in /var/lib/holdfast; the next such
start removes those whose data directory is gone.`
}

// devPort is where dev listens, and client.DefaultServer looks.
const devPort = 8787

// Validate implements kong's check after parsing.
func (c *DevCmd) Validate() error {
	if c.Listen != "" && !isLoopback(c.Listen) {
		return fmt.Errorf("dev listens on loopback only, because it asks nobody for a token; for %s use \"holdfast serve\"", c.Listen)
	}
	return errors.Join(c.ServiceSettings.Validate(), c.NatsSettings.validate())
}

// Run implements the command.
func (c *DevCmd) Run(ctx context.Context, k *kong.Context) error {
	began := time.Now()
	return c.serve(ctx, func(p *process, applied []client.Applied, secrets *devSecrets) {
		welcome := welcome{
			out: k.Stdout, server: asURL(p.address()), dir: p.dataDir, took: time.Since(began), applied: applied, secrets: secrets,
		}
		if p.database.DatabaseURL != "" {
			welcome.database = config.RedactURL(p.databaseURL)
		}
		welcome.print(ctx)
	})
}

// serve runs everything until ctx ends, and calls ready once it answers.
func (c *DevCmd) serve(ctx context.Context, ready func(*process, []client.Applied, *devSecrets)) error {
	dir, err := filepath.Abs(c.DataDir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { // below it, each server closes its own
		return err
	}
	secrets := &devSecrets{dir: dir}
	p := &process{
		database: c.DatabaseSettings, nats: c.NatsSettings, common: c.ProcessSettings, services: c.ServiceSettings,
		running: services, dataDir: dir, log: c.logger(), dev: &devPrincipal, secrets: secrets.resolve,
	}
	if p.databaseURL, err = c.url(); err != nil {
		return usage(err)
	}
	p.addTelemetry("holdfast")
	if err := p.add("dev"); err != nil {
		return err
	}
	p.part("http", func(context.Context) (lifecycle.Service, error) {
		handler, err := p.devHandler()
		if err != nil {
			return nil, err
		}
		addr, err := c.address()
		if err != nil {
			return nil, err
		}
		p.http = door.NewServer(addr, handler)
		return p.http, nil
	})
	var applied []client.Applied
	p.part("apply", func(ctx context.Context) (lifecycle.Service, error) {
		p.reached.Store(asURL(p.address())) // it listens now
		if applied, err = c.apply(ctx, p); err != nil {
			return nil, err
		}
		return lifecycle.Funcs{ServiceName: "apply"}, nil
	})
	return p.run(ctx, func() { ready(p, applied, secrets) })
}

// devHandler serves all doors and the health pages on one address.
func (p *process) devHandler() (http.Handler, error) {
	doors, err := joinDoors(p.doors)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	health := p.healthHandler()
	for _, path := range []string{"GET /live", "GET /ready", "GET /started", "GET /metrics"} {
		mux.Handle(path, health)
	}
	mux.Handle("/", doors)
	return mux, nil
}

// address is where to listen: as told, else the first free port from devPort.
func (c *DevCmd) address() (string, error) {
	if c.Listen != "" {
		return c.Listen, nil
	}
	for port := devPort; port < devPort+50; port++ {
		l, err := net.Listen("tcp", localhost(port))
		if err == nil {
			return l.Addr().String(), l.Close()
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return "", err
		}
		if port == devPort {
			fmt.Fprintf(os.Stderr, "holdfast: port %d is taken, looking for the next free one (choose with --listen)\n", port)
		}
	}
	return "", fmt.Errorf("no free port from %d to %d; choose one with --listen", devPort, devPort+49)
}

// apply stores the definitions of -f through the console's own door.
func (c *DevCmd) apply(ctx context.Context, p *process) ([]client.Applied, error) {
	if len(c.File) == 0 {
		return nil, nil
	}
	docs, err := readDefinitions(c.File)
	if err != nil {
		return nil, err
	}
	api, err := client.New(client.Config{Server: asURL(p.address())})
	if err != nil {
		return nil, err
	}
	return api.Apply(ctx, docs)
}
