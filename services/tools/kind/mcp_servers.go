package kind

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/tools"
)

// Carrier makes guarded transports; egress.Client is one.
type Carrier interface {
	Transport(r egress.Reach) (http.RoundTripper, error)
}

// MCPConfig is what connections to MCP servers are made with.
type MCPConfig struct {
	Servers tools.Servers
	// Egress carries HTTP.
	Egress Carrier
	// Commands lists the programs that may be started as servers, as definitions
	// write them; "*" allows every program. Empty allows none.
	Commands  []string
	LookupEnv func(string) (string, bool)
	ReadFile  func(string) ([]byte, error)
	Version   string // of this program, told to servers
	Log       *slog.Logger
}

// MCPServers keeps one session with each MCP server, connected when it is first
// needed, shared by all calls and made anew, after a growing pause, when it
// breaks. It is safe for concurrent use.
type MCPServers struct {
	config MCPConfig

	mu      sync.Mutex
	closed  bool
	servers map[string]*mcpServer
	ending  sync.WaitGroup
}

// NewMCPServers connects nothing yet.
func NewMCPServers(c MCPConfig) *MCPServers {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &MCPServers{config: c, servers: map[string]*mcpServer{}}
}

// mcpServer is one server's place. Whoever holds turn may change it.
type mcpServer struct {
	turn      chan struct{}
	session   *session
	failures  int // in a row
	notBefore time.Time
}

const (
	codeServerMissing = "server_missing"
	codeMisconfigured = "tool_misconfigured"
	codeUnreachable   = "unreachable"

	firstReconnect = 500 * time.Millisecond
	lastReconnect  = 30 * time.Second
	idleSession    = 15 * time.Minute
)

// session returns the server's session for one use; call done after it. Every
// error is a *tools.Unready: nothing was sent.
func (m *MCPServers) session(ctx context.Context, namespace, name string) (*session, func(), error) {
	def, digest, err := m.config.Servers.MCPServer(ctx, namespace, name)
	switch {
	case errors.Is(err, tools.ErrNoDefinition):
		return nil, nil, unready(codeServerMissing, fmt.Errorf("there is no MCP server %s; apply its definition", name))
	case err != nil:
		return nil, nil, unready(codeUnreachable, fmt.Errorf("find MCP server %s: %w", name, err))
	}
	place, err := m.place(namespace, name)
	if err != nil {
		return nil, nil, err
	}
	select {
	case place.turn <- struct{}{}:
		defer func() { <-place.turn }()
	case <-ctx.Done():
		return nil, nil, unready(codeUnreachable, fmt.Errorf("connect to MCP server %s: %w", name, context.Cause(ctx)))
	}
	if s := place.session; s != nil && (s.over() || s.digest != digest) {
		if s.over() && !s.served() {
			place.failed(time.Now())
		}
		m.retire(place)
	}
	if place.session == nil {
		if wait := time.Until(place.notBefore); wait > 0 {
			return nil, nil, unready(codeUnreachable, fmt.Errorf("MCP server %s keeps ending; the next attempt is in %s", name, wait.Round(time.Millisecond)))
		}
		s, err := m.open(ctx, name, def, digest)
		if err != nil {
			place.failed(time.Now())
			return nil, nil, err
		}
		place.session = s
	}
	s := place.session
	if s.served() {
		place.failures = 0
	}
	s.uses.Add(1)
	return s, s.uses.Done, nil
}

func unready(code string, err error) *tools.Unready { return &tools.Unready{Code: code, Err: err} }

func (m *MCPServers) place(namespace, name string) (*mcpServer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, unready(codeUnreachable, errors.New("this worker is stopping"))
	}
	key := namespace + "/" + name
	if m.servers[key] == nil {
		m.servers[key] = &mcpServer{turn: make(chan struct{}, 1)}
	}
	return m.servers[key], nil
}

func (p *mcpServer) failed(now time.Time) {
	wait := firstReconnect << min(p.failures, 10)
	p.failures++
	p.notBefore = now.Add(min(wait, lastReconnect))
}

// retire ends a place's session when its last use is over.
func (m *MCPServers) retire(p *mcpServer) {
	s := p.session
	p.session = nil
	m.ending.Go(func() {
		s.uses.Wait()
		s.close()
	})
}

// open connects to the server as it is defined.
func (m *MCPServers) open(ctx context.Context, name string, def *spec.MCPServer, digest events.Digest) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, def.ConnectTimeout.Std())
	defer cancel()
	log := m.config.Log.With("mcp_server", name)
	began := time.Now()
	s, err := m.connect(ctx, def, log)
	if err != nil {
		log.Warn("mcp server cannot be used", "err", err)
		code := codeUnreachable
		if u, ok := errors.AsType[*tools.Unready](err); ok {
			code = u.Code
		}
		return nil, unready(code, fmt.Errorf("MCP server %s: %w", name, err))
	}
	s.name, s.def, s.digest = name, def, digest
	log.Info("mcp server connected", "protocol", s.client.InitializeResult().ProtocolVersion, "took", time.Since(began))
	return s, nil
}

// Run ends sessions that nobody uses, until ctx ends.
func (m *MCPServers) Run(ctx context.Context) error {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			m.sweep(now)
		}
	}
}

func (m *MCPServers) sweep(now time.Time) {
	for _, p := range m.places() {
		select {
		case p.turn <- struct{}{}:
			if s := p.session; s != nil && now.Sub(s.lastUse()) > idleSession {
				m.retire(p)
			}
			<-p.turn
		default: // it is being connected to
		}
	}
}

func (m *MCPServers) places() []*mcpServer {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]*mcpServer, 0, len(m.servers))
	for _, p := range m.servers {
		out = append(out, p)
	}
	return out
}

// Close ends every session and every program that was started. Calls that run
// are cut off.
func (m *MCPServers) Close(ctx context.Context) error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	for _, p := range m.places() {
		select {
		case p.turn <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		if s := p.session; s != nil {
			p.session = nil
			m.ending.Go(s.close)
		}
		<-p.turn
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.ending.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// mayStart reports whether the operator of this machine lets the program run.
func (m *MCPServers) mayStart(command string) bool {
	return slices.Contains(m.config.Commands, "*") || slices.Contains(m.config.Commands, command)
}
