package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/lifecycle"
	"github.com/holdfast-run/holdfast/internal/natsdev"
)

// NatsServerSettings are of "serve nats".
type NatsServerSettings struct {
	NatsDir           string        `group:"nats" default:".holdfast/nats" help:"Where \"serve nats\" keeps its data (${default})."`
	NatsListen        string        `group:"nats" default:"127.0.0.1:4222" help:"Where \"serve nats\" listens (${default}); port 0 is a free one. Anything but loopback needs --nats-token."`
	NatsToken         config.Secret `group:"nats" placeholder:"TOKEN" help:"What clients of \"serve nats\" must show: nats://TOKEN@host."`
	NatsTokenFile     string        `group:"nats" placeholder:"FILE" help:"File that holds it."`
	NatsConfig        string        `group:"nats" placeholder:"FILE" help:"What else \"serve nats\" should know, in nats-server's own form: users with permissions (deploy/nats/holdfast.conf), TLS."`
	NatsMonitorPort   int           `group:"nats" default:"0" help:"Port for nats-server's own monitoring pages; 0 is none."`
	NatsMaxStoreBytes int64         `group:"nats" default:"0" help:"Most that all streams may store; 0 is 32 GiB."`
}

// addNATSServer runs NATS for other processes.
func (p *process) addNATSServer(s NatsServerSettings) {
	p.part("nats", func(ctx context.Context) (lifecycle.Service, error) {
		host, portText, err := net.SplitHostPort(s.NatsListen)
		if err != nil {
			return nil, fmt.Errorf("--nats-listen: %w", err)
		}
		port, err := strconv.Atoi(portText)
		if err != nil || port < 0 || port > 65535 {
			return nil, fmt.Errorf("--nats-listen: %q is not a port", portText)
		}
		if host == "" {
			host = "0.0.0.0"
		}
		token := s.NatsToken
		if s.NatsTokenFile != "" {
			if token, err = config.ReadSecret(s.NatsTokenFile); err != nil {
				return nil, err
			}
		}
		if token == "" && s.NatsConfig == "" && !isLoopback(s.NatsListen) {
			return nil, errors.New("refusing to listen on " + s.NatsListen + " without a token: set --nats-token-file or --nats-config, or listen on 127.0.0.1")
		}
		server, err := natsdev.Start(ctx, natsdev.Config{
			Dir: s.NatsDir, Host: host, Port: port, MonitorPort: s.NatsMonitorPort, Token: token, ConfigFile: s.NatsConfig,
			MaxStoreBytes: s.NatsMaxStoreBytes, Log: p.log,
		})
		if err != nil {
			return nil, err
		}
		p.health.Add("nats", server.Healthy)
		p.log.Info("nats listens", "url", config.RedactURL(server.URL()), "dir", s.NatsDir)
		return lifecycle.Funcs{ServiceName: "nats", OnStop: func(ctx context.Context) error { return within(ctx, server.Stop) }}, nil
	})
}
