package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/services/runner"
	"github.com/holdfast-run/holdfast/services/trigger"
)

// LogSettings say what a process writes to standard error.
type LogSettings struct {
	LogLevel  string `group:"process" default:"info" enum:"debug,info,warn,error" help:"debug, info, warn or error (${default})."`
	LogFormat string `group:"process" default:"text" enum:"text,json" help:"text or json (${default})."`
}

func (s LogSettings) logger() *slog.Logger {
	return telemetry.NewLogger(os.Stderr, s.LogLevel, s.LogFormat)
}

// DatabaseSettings say where Postgres is.
type DatabaseSettings struct {
	DatabaseURL            config.Secret `group:"database" placeholder:"URL" help:"postgres://user:password@host/database."`
	DatabaseURLFile        string        `group:"database" placeholder:"FILE" help:"File that holds the database URL."`
	DatabaseRolePerService bool          `group:"database" default:"true" negatable:"" help:"Connect each service as its own role (holdfast_runner, ...) instead of the URL's user. On by default."`
	DatabaseMaxConns       int32         `group:"database" default:"8" help:"Connections of each service (${default})."`
}

// url is the database's URL, empty when none is set.
func (s DatabaseSettings) url() (config.Secret, error) {
	if s.DatabaseURLFile == "" {
		return s.DatabaseURL, nil
	}
	if s.DatabaseURL != "" {
		return "", errors.New("--database-url and --database-url-file exclude each other")
	}
	return config.ReadSecret(s.DatabaseURLFile)
}

// config is how a service opens the database at url.
func (s DatabaseSettings) config(url config.Secret, service string) pg.Config {
	c := pg.Config{URL: url, MaxConns: s.DatabaseMaxConns, AppName: "holdfast-" + service}
	if s.DatabaseRolePerService {
		c.Role = "holdfast_" + service
	}
	return c
}

// NatsSettings say where NATS is.
type NatsSettings struct {
	NatsURL      config.Secret `name:"nats-url" group:"nats" placeholder:"URL" help:"nats://host:4222; several separated by commas."`
	NatsReplicas int           `group:"nats" default:"1" help:"Copies of every stream in a NATS cluster: 1, 3 or 5 (${default})."`

	NatsUser         string        `group:"nats" placeholder:"NAME" help:"Who connects; docs/nats.md has a user for each service that may do what it needs and no more."`
	NatsPassword     config.Secret `group:"nats" placeholder:"TEXT" help:"Its password."`
	NatsPasswordFile string        `group:"nats" placeholder:"FILE" help:"File that holds it; read again for each connection, as are all these files."`
	NatsCreds        string        `group:"nats" placeholder:"FILE" help:"Instead of a user: a credentials file, with a JWT and its seed."`
	NatsNkey         string        `group:"nats" placeholder:"FILE" help:"Instead of a user: a file with the seed of an nkey."`
	NatsCA           string        `name:"nats-ca" group:"nats" placeholder:"FILE" help:"Authorities that NATS' certificates are from (PEM); with it the connection is TLS. Without it the system's count, for tls:// URLs."`
	NatsCert         string        `group:"nats" placeholder:"FILE" help:"Certificate that this process shows to NATS (PEM)."`
	NatsKey          string        `group:"nats" placeholder:"FILE" help:"Its key."`
	NatsProvision    string        `group:"nats" enum:"all,own" default:"all" help:"Streams that are set up when they are missing: all, or own, which are the inboxes of this process' services (${default})."`
}

func (s NatsSettings) validate() error { return s.connection(nil).Credentials.Validate() }

// connection is what a connection needs over which services run.
func (s NatsSettings) connection(services []string) bus.Config {
	return bus.Config{
		URL: s.NatsURL, Name: "holdfast", Replicas: s.NatsReplicas, Services: services, Own: s.NatsProvision == "own",
		Credentials: bus.Credentials{
			User: s.NatsUser, Password: s.NatsPassword, PasswordFile: s.NatsPasswordFile, CredsFile: s.NatsCreds, NKeyFile: s.NatsNkey,
			CAFile: s.NatsCA, CertFile: s.NatsCert, KeyFile: s.NatsKey,
		},
	}
}

// ProcessSettings are of one process, whatever it runs.
type ProcessSettings struct {
	LogSettings
	ShutdownDelay time.Duration `group:"process" default:"0s" help:"How long to go on after /ready has begun to say no, so that load balancers notice (${default})."`
	ShutdownGrace time.Duration `group:"process" default:"20s" help:"How long work in flight may take to finish at the end (${default}); what takes longer is handed to other processes within it."`
	OTLPEndpoint  string        `name:"otlp-endpoint" group:"process" placeholder:"URL" help:"Where traces go over OTLP/HTTP: http://collector:4318. Without it none are recorded."`
}

// ServiceSettings are the settings of the services themselves.
type ServiceSettings struct {
	Trigger trigger.Config `embed:"" prefix:"trigger-" group:"services"`
	Runner  runner.Config  `embed:"" prefix:"runner-" group:"services"`

	ToolsPools []string `group:"services" default:"default,callbacks" help:"Tool pools that this process works for (${default}). Callbacks posts the ends of runs; some process must work for it."`
	ToolsSlots int      `group:"services" default:"32" help:"Tool calls of one pool at once (${default})."`

	ToolsKeyRetention time.Duration `group:"services" default:"9600h" help:"How long the key of a side effect is kept after it ended; then it is refused for ever and what was done is forgotten (${default}, 400 days)."`

	ToolsPublicURL string `name:"tools-public-url" group:"services" placeholder:"URL" help:"Where other systems reach this installation: https://holdfast.example.com. Tools that are answered by a callback post to it; without it they are refused. Dev without it uses its own address."`

	ApprovalsPublicURL string `name:"approvals-public-url" group:"services" placeholder:"URL" help:"Where people reach this installation: https://holdfast.example.com. Messages link to it; without it they link to nothing. Dev without it uses its own address."`

	ApprovalsProposeAfter int `group:"services" default:"5" help:"How often people must have approved the same in 30 days, and rejected it never, before the inbox proposes a grant; 0: never (${default})."`

	ConsoleCheckpointBytes int64 `group:"services" default:"1048576" help:"Largest state in bytes that a program may save of its own run (${default})."`

	ToolsMCPCommands []string `name:"tools-mcp-commands" group:"services" placeholder:"PROGRAM" help:"Programs that MCP server definitions may start on this machine, as they write them: /usr/bin/node. An interpreter starts whatever it is told to; * allows every program. Default: none. Repeatable."`

	ToolsHostRate        []string `group:"services" placeholder:"HOST=RATE" help:"How many requests of tools to a host begin in a time, of all workers together: api.example.com=10/s. Every tools process must say the same. Repeatable."`
	ToolsHostConcurrency []string `group:"services" placeholder:"HOST=N" help:"How many requests of tools to a host are under way at once, of all workers together: api.example.com=4. Every tools process must say the same. Repeatable."`

	EgressAllow      []string `group:"services" placeholder:"CIDR" help:"Address ranges that tools, models and notices may reach although they are not public: 10.0.0.0/8. Repeatable."`
	EgressAllowHosts bool     `group:"services" default:"true" negatable:"" help:"Let definitions name hosts (allowHosts) that may be reached although their addresses are private. On by default."`

	EgressBreakerFailures int           `group:"services" default:"5" help:"Failures of a host in a row (no connection, no answer in time, 5xx) after which this process sends nothing to it for a while; 0: it always sends (${default})."`
	EgressBreakerOpen     time.Duration `group:"services" default:"30s" help:"How long nothing is sent to such a host before one request is tried (${default})."`

	SignInSettings

	MaxBody     int64         `group:"services" default:"1048576" help:"Largest request body in bytes (${default})."`
	BodyTimeout time.Duration `group:"services" default:"15s" help:"How long a request's body may take; each 128 KiB that have arrived give it a second more (${default})."`
}

// Validate joins every problem that flags alone cannot see.
func (s ServiceSettings) Validate() error {
	var errs []error
	errs = append(errs, s.Trigger.Validate(), s.Runner.Validate(), s.SignInSettings.Validate())
	if s.ToolsSlots < 1 {
		errs = append(errs, fmt.Errorf("--tools-slots is %d, want at least 1", s.ToolsSlots))
	}
	if s.ToolsKeyRetention < 24*time.Hour {
		errs = append(errs, fmt.Errorf("--tools-key-retention is %s, want at least 24h: after it a key is refused for ever", s.ToolsKeyRetention))
	}
	if s.ConsoleCheckpointBytes < 1024 || s.ConsoleCheckpointBytes > 64<<20 {
		errs = append(errs, fmt.Errorf("--console-checkpoint-bytes is %d, want 1024 to %d", s.ConsoleCheckpointBytes, 64<<20))
	}
	if err := checkPublicURL(s.ToolsPublicURL); err != nil {
		errs = append(errs, fmt.Errorf("--tools-public-url: %w", err))
	}
	if err := checkPublicURL(s.ApprovalsPublicURL); err != nil {
		errs = append(errs, fmt.Errorf("--approvals-public-url: %w", err))
	}
	if s.ApprovalsProposeAfter < 0 {
		errs = append(errs, fmt.Errorf("--approvals-propose-after is %d, want 0 (never) or more", s.ApprovalsProposeAfter))
	}
	if s.EgressBreakerFailures < 0 {
		errs = append(errs, fmt.Errorf("--egress-breaker-failures is %d, want 0 (off) or more", s.EgressBreakerFailures))
	}
	if s.EgressBreakerOpen < time.Second || s.EgressBreakerOpen > time.Hour {
		errs = append(errs, fmt.Errorf("--egress-breaker-open is %s, want 1s to 1h", s.EgressBreakerOpen))
	}
	if s.MaxBody < 1024 {
		errs = append(errs, fmt.Errorf("--max-body is %d, want at least 1024", s.MaxBody))
	}
	if s.BodyTimeout < time.Second || s.BodyTimeout > time.Hour {
		errs = append(errs, fmt.Errorf("--body-timeout is %s, want 1s to 1h", s.BodyTimeout))
	}
	_, err := s.hostLimits()
	_, egressErr := s.egress()
	return errors.Join(append(errs, err, egressErr)...)
}

// egress is how the process may reach other machines.
func (s ServiceSettings) egress() (egress.Config, error) {
	c := egress.Config{UserAgent: "holdfast/" + buildVersion(), NoHosts: !s.EgressAllowHosts}
	for _, text := range s.EgressAllow {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return egress.Config{}, fmt.Errorf("--egress-allow: %w; want a range like 10.0.0.0/8", err)
		}
		c.Allow = append(c.Allow, p)
	}
	return c, nil
}

// isLoopback reports whether an address to listen on is reached from this
// machine only.
func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
