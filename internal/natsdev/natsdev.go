// Package natsdev runs a NATS server with JetStream inside this process, for
// development, tests, the demo and installations of one machine.
//
// It guarantees that one process at a time uses a data directory (nats-server
// itself does not check). What it stores survives a killed process; a power
// failure may cost the last second, which the rest of Holdfast makes good from
// Postgres.
package natsdev

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/dirlock"
)

// Config places one server.
type Config struct {
	Dir string // data; created when absent
	// Host and Port are where clients connect; "" is 127.0.0.1, -1 and 0 a free
	// port. DontListen leaves only connections from inside this process.
	Host       string
	Port       int
	DontListen bool
	// MonitorPort serves nats-server's HTTP monitoring on Host; 0 not at all,
	// -1 on a free port.
	MonitorPort int
	// Token, when set, is what clients must show ("nats://<token>@host").
	Token config.Secret
	// ConfigFile holds what else nats-server should know, in its own form: users and
	// their permissions, TLS. What this Config says comes before it.
	ConfigFile string
	// MaxStoreBytes bounds all streams together; 0 = 32 GiB.
	MaxStoreBytes int64
	Log           *slog.Logger // nil = silent
}

// Server is a running server. Its methods are safe for concurrent use.
type Server struct {
	server *server.Server
	lock   *dirlock.Lock
	token  config.Secret
	stop   sync.Once
}

// Start returns when the server accepts connections. A directory in use gives
// a *dirlock.HeldError, a taken port an error that names the address.
func Start(ctx context.Context, c Config) (*Server, error) {
	if c.Dir == "" {
		return nil, errors.New("natsdev: no data directory")
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("natsdev: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("natsdev: %w", err)
	}
	lock, err := dirlock.Acquire(dir, "NATS server")
	if err != nil {
		return nil, err
	}
	s, err := start(ctx, c, dir)
	if err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	return &Server{server: s, lock: lock, token: c.Token}, nil
}

func start(ctx context.Context, c Config, dir string) (*server.Server, error) {
	opts := &server.Options{}
	if c.ConfigFile != "" {
		if err := opts.ProcessConfigFile(c.ConfigFile); err != nil {
			return nil, fmt.Errorf("natsdev: %w", err)
		}
	}
	opts.ServerName = "holdfast"
	opts.Host, opts.Port, opts.DontListen, opts.HTTPPort = c.Host, c.Port, c.DontListen, c.MonitorPort
	if c.Token != "" {
		opts.Authorization = c.Token.Reveal()
	}
	opts.JetStream, opts.StoreDir = true, dir
	opts.JetStreamMaxMemory, opts.JetStreamMaxStore = 256<<20, c.MaxStoreBytes
	opts.SyncInterval, opts.NoSigs = time.Second, true
	opts.JetStreamLimits.DefaultMaxConsumers = -1
	if opts.Host == "" {
		opts.Host = "127.0.0.1"
	}
	if opts.Port == 0 {
		opts.Port = server.RANDOM_PORT
	}
	if opts.JetStreamMaxStore == 0 {
		opts.JetStreamMaxStore = 32 << 30
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("natsdev: %w", err)
	}
	log := &logger{log: c.Log}
	if log.log == nil {
		log.log = slog.New(slog.DiscardHandler)
	}
	s.SetLoggerV2(log, false, false, false)
	go s.Start()
	// Half a million stored messages take seconds to read after a crash.
	for deadline := time.Now().Add(time.Minute); !s.ReadyForConnections(50 * time.Millisecond); {
		err := errors.Join(ctx.Err(), log.failed())
		if err == nil && time.Now().After(deadline) {
			err = errors.New("not ready after a minute")
		}
		if err != nil {
			s.Shutdown()
			s.WaitForShutdown()
			return nil, fmt.Errorf("natsdev: start in %s: %w", dir, err)
		}
	}
	return s, nil
}

// URL is where clients connect, with the token when there is one; empty with
// DontListen.
func (s *Server) URL() config.Secret {
	addr, ok := s.server.Addr().(*net.TCPAddr)
	if !ok {
		return ""
	}
	host := addr.IP.String()
	if addr.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	u := url.URL{Scheme: "nats", Host: net.JoinHostPort(host, strconv.Itoa(addr.Port))}
	if s.token != "" {
		u.User = url.User(s.token.Reveal())
	}
	return config.Secret(u.String())
}

// Port is the TCP port, 0 with DontListen.
func (s *Server) Port() int {
	if addr, ok := s.server.Addr().(*net.TCPAddr); ok {
		return addr.Port
	}
	return 0
}

// MonitorURL is the base URL of the monitoring pages, empty without them.
func (s *Server) MonitorURL() string {
	if a := s.server.MonitorAddr(); a != nil {
		return "http://" + a.String()
	}
	return ""
}

// InProcess connects without a socket: pass it to nats.InProcessServer.
func (s *Server) InProcess() nats.InProcessConnProvider { return s.server }

// Healthy reports whether the server runs and JetStream is in order.
func (s *Server) Healthy(context.Context) error {
	if !s.server.Running() {
		return errors.New("nats server is stopped")
	}
	if st := s.server.JetStreamConfig(); st == nil {
		return errors.New("jetstream is off")
	}
	return nil
}

// Stop ends the server and returns when its files are closed and the directory
// is free. Clients see a closed connection. Further calls do nothing.
func (s *Server) Stop() {
	s.stop.Do(func() {
		s.server.Shutdown()
		s.server.WaitForShutdown()
		_ = s.lock.Release() // closing a file that is not written to
	})
}
