package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/lifecycle"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/services/runner"
)

// ServeCmd runs services.
type ServeCmd struct {
	Services []string `arg:"" enum:"trigger,runner,tools,approvals,console,edge,nats" help:"What to run in this process: trigger, runner, tools, approvals, console, edge or nats. Services may be named together; edge and nats run alone."`

	DatabaseSettings
	NatsSettings
	ProcessSettings
	ServiceSettings
	EdgeSettings
	NatsServerSettings

	Listen       string `group:"http" placeholder:"ADDR" help:"Where the doors listen. Default: 127.0.0.1 and the port of the first service named (trigger 8701, tools 8702, approvals 8703, console 8704, edge 8787). Anything but loopback needs tokens, see 'holdfast migrate --help'."`
	HealthListen string `group:"http" placeholder:"ADDR" help:"Where /live, /ready, /started and /metrics listen. Default: 127.0.0.1 and the service's port plus 10 (runner 8715, nats 8717)."`

	TLSCert     string `name:"tls-cert" group:"http" placeholder:"FILE" help:"The doors speak HTTPS with this certificate (PEM), which is read again when it changes. The health port stays plain."`
	TLSKey      string `name:"tls-key" group:"http" placeholder:"FILE" help:"Its key."`
	TLSClientCA string `name:"tls-client-ca" group:"http" placeholder:"FILE" help:"Who shows no certificate from these authorities is refused."`

	model runner.Model // answers instead of the adapters; of the bench
}

// Help implements kong.HelpProvider.
func (*ServeCmd) Help() string {
	return `In production each service is a process of its own and scales on its own; start
as many of each as you like. They meet in NATS and Postgres only.

  holdfast migrate                 --database-url postgres://...
  holdfast serve nats              --nats-dir /var/lib/holdfast/nats
  holdfast serve trigger           --database-url postgres://... --nats-url nats://127.0.0.1:4222
  holdfast serve runner tools      --database-url postgres://... --nats-url nats://127.0.0.1:4222
  holdfast serve edge              --edge-trigger-url http://127.0.0.1:8701 ...

"edge" puts the doors of all services on one address. SIGTERM makes /ready say
no, waits --shutdown-delay, lets work in flight finish and hands the rest over.`
}

// ports are where services listen unless told otherwise; health is ten above.
var ports = map[string]int{
	"trigger": 8701, "tools": 8702, "approvals": 8703, "console": 8704, "runner": 8705, "nats": 8707,
	"edge": 8787,
}

// Validate implements kong's check after parsing.
func (c *ServeCmd) Validate() error {
	for _, alone := range []string{"edge", "nats"} {
		if slices.Contains(c.Services, alone) && len(c.Services) > 1 {
			return fmt.Errorf("%s runs alone; start it as a process of its own", alone)
		}
	}
	var errs []error
	for _, addr := range []string{c.Listen, c.HealthListen} {
		if addr != "" {
			if _, _, err := net.SplitHostPort(addr); err != nil {
				errs = append(errs, fmt.Errorf("%q is not an address like 127.0.0.1:8080: %w", addr, err))
			}
		}
	}
	return errors.Join(append(errs, c.ServiceSettings.Validate(), c.NatsSettings.validate(), c.certificates(nil).Validate(), c.EdgeSettings.validate())...)
}

func (c *ServeCmd) certificates(log *slog.Logger) door.Certificates {
	return door.Certificates{CertFile: c.TLSCert, KeyFile: c.TLSKey, ClientCAFile: c.TLSClientCA, Log: log}
}

// listen is where the doors listen: as told, else by the first service with one.
func (c *ServeCmd) listen() string {
	if c.Listen != "" {
		return c.Listen
	}
	for _, s := range c.Services {
		if s == "edge" || slices.Contains(doorServices, s) {
			return localhost(ports[s])
		}
	}
	return ""
}

func (c *ServeCmd) healthListen() string {
	if c.HealthListen != "" {
		return c.HealthListen
	}
	return localhost(ports[c.Services[0]] + 10)
}

func localhost(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// Run implements the command.
func (c *ServeCmd) Run(ctx context.Context) error {
	defer holdHeapRoom()()
	p := &process{
		database: c.DatabaseSettings, nats: c.NatsSettings, common: c.ProcessSettings, services: c.ServiceSettings,
		running: c.Services, log: c.logger(), secrets: resolveSecret, model: c.model,
	}
	p.certificates = c.certificates(p.log)
	name := "holdfast"
	if len(c.Services) == 1 {
		name = c.Services[0]
	}
	p.addTelemetry(name)
	p.addHealth(c.healthListen())
	switch c.Services[0] {
	case "edge":
		if err := p.addEdge(c.EdgeSettings, c.listen()); err != nil {
			return err
		}
	case "nats":
		p.addNATSServer(c.NatsServerSettings)
	default:
		if err := c.addServices(p); err != nil {
			return err
		}
	}
	began := time.Now()
	return p.run(ctx, func() {
		p.log.Info("ready", "services", strings.Join(c.Services, " "), "listen", p.address(), "health", c.healthListen(), "took", time.Since(began).Round(time.Millisecond))
	})
}

func (c *ServeCmd) addServices(p *process) (err error) {
	if p.databaseURL, err = c.url(); err != nil {
		return usage(err)
	}
	if p.databaseURL == "" {
		return usage(errors.New("no database: set --database-url (HOLDFAST_DATABASE_URL); \"holdfast dev\" brings its own"))
	}
	addr := c.listen()
	if addr != "" && !isLoopback(addr) {
		p.part("tokens", func(ctx context.Context) (lifecycle.Service, error) {
			return lifecycle.Funcs{ServiceName: "tokens"}, requireToken(ctx, c.config(p.databaseURL, c.Services[0]), addr)
		})
	}
	if err := p.add(c.Services...); err != nil {
		return err
	}
	if addr != "" {
		p.addDoors(addr)
	}
	return nil
}

// listens is the server of doors, over TLS when there are certificates.
func (p *process) listens(addr string, handler http.Handler) (lifecycle.Service, error) {
	p.http = door.NewServer(addr, handler)
	if !p.certificates.On() {
		return p.http, nil
	}
	if err := p.http.Secure(p.certificates); err != nil {
		return nil, err
	}
	return p.http, nil
}

// addDoors serves the doors of the services before it on one address.
func (p *process) addDoors(addr string) {
	p.part("http", func(context.Context) (lifecycle.Service, error) {
		handler, err := joinDoors(p.doors)
		if err != nil {
			return nil, err
		}
		return p.listens(addr, handler)
	})
}

const anyToken = `
SELECT EXISTS (SELECT FROM catalog.v_tokens
                WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp()))`

// requireToken refuses to open a door to other machines while nobody could
// show a token: what listens there must not depend on being forgotten.
func requireToken(ctx context.Context, c pg.Config, addr string) error {
	pool, err := pg.Open(ctx, c)
	if err != nil {
		return fmt.Errorf("look for tokens: %w", err)
	}
	defer pool.Close()
	var found bool
	if err := pool.QueryRow(ctx, anyToken).Scan(&found); err != nil {
		return fmt.Errorf("look for tokens (has \"holdfast migrate\" run?): %w", err)
	}
	if !found {
		return fmt.Errorf("refusing to listen on %s: it can be reached from other machines and there is no token yet; "+
			"make the first one with \"holdfast migrate --admin-token-file FILE\"", addr)
	}
	return nil
}

// address is where the doors listen, empty when there are none.
func (p *process) address() string {
	if p.http == nil {
		return ""
	}
	return p.http.Address()
}

// asURL turns an address to listen on into one to open.
func asURL(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "http://" + addr
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}
