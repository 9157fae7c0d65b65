package kind

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// session is one connection to an MCP server.
type session struct {
	name   string
	def    *spec.MCPServer
	digest events.Digest // of def
	client *mcp.ClientSession
	scrub  func() scrubber
	ended  chan struct{} // closed when the connection has broken
	uses   sync.WaitGroup

	answered atomic.Int64 // calls
	silent   atomic.Int64 // calls in a row without an answer
	used     atomic.Int64 // Unix seconds
	lost     atomic.Bool  // the server does not know it any more
}

// connect starts or reaches the server and shakes hands.
func (m *MCPServers) connect(ctx context.Context, def *spec.MCPServer, log *slog.Logger) (*session, error) {
	s := &session{ended: make(chan struct{})}
	s.used.Store(time.Now().Unix())
	var transport mcp.Transport
	var version func(string)
	stop := func() {}
	if def.Stdio != nil {
		c, scrub, err := m.start(def.Stdio, log)
		if err != nil {
			return nil, err
		}
		transport, stop = newLines(c, log), func() { c.kill(); _ = c.close() }
		s.scrub = func() scrubber { return scrub }
	} else {
		endpoint, trip, scrub, err := m.reach(def)
		if err != nil {
			return nil, err
		}
		transport = &mcp.StreamableClientTransport{
			Endpoint: endpoint, DisableStandaloneSSE: true, MaxRetries: -1,
			HTTPClient: egress.Via(trip),
		}
		s.scrub, version = scrub, trip.setVersion
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "holdfast", Version: cmp.Or(m.config.Version, "dev")}, &mcp.ClientOptions{
		// Nothing is offered to servers: no roots, no sampling, no questions. And a
		// call is sent once; the SDK would repeat one that the server wants to be
		// asked again.
		Capabilities:   &mcp.ClientCapabilities{},
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
		Logger:         slog.New(slog.DiscardHandler),
	})
	var err error
	s.client, err = client.Connect(ctx, &tap{Transport: transport, version: version}, nil)
	if err != nil {
		stop()
		if open, ok := errors.AsType[*egress.OpenError](err); ok {
			return nil, unready(codeCircuitOpen, open)
		}
		return nil, errors.New(s.scrub().clean(plainMCP(ctx, err).Error(), maxProblemBytes))
	}
	go func() {
		defer close(s.ended)
		_ = s.client.Wait() // why it broke is told to the calls that wait for it
	}()
	return s, nil
}

// plainMCP prefers the reason why ctx ended to what it made fail.
func plainMCP(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("it did not answer in time: %w", context.Cause(ctx))
	}
	return err
}

// start starts a server program with a clean environment.
func (m *MCPServers) start(def *spec.MCPStdio, log *slog.Logger) (*child, scrubber, error) {
	if !m.mayStart(def.Command) {
		return nil, scrubber{}, unready(codeMisconfigured, fmt.Errorf("the program %s may not be started here; the operator allows it with --tools-mcp-commands", clip(def.Command, 200)))
	}
	path, _ := m.config.LookupEnv("PATH")
	home, _ := m.config.LookupEnv("HOME")
	env := map[string]string{"PATH": path, "HOME": home}
	secrets := map[string]string{}
	for name, v := range def.Env {
		value := v.Text
		if !v.Secret.IsZero() {
			var err error
			if value, err = v.Secret.Resolve(m.config.LookupEnv, m.config.ReadFile); err != nil {
				return nil, scrubber{}, unready(codeMisconfigured, fmt.Errorf("resolve env %s: %w", name, err))
			}
			secrets[name] = value
		}
		env[name] = value
	}
	cmd := exec.Command(def.Command, def.Args...)
	cmd.Dir = cmp.Or(def.Dir, home)
	cmd.Env = make([]string, 0, len(env))
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	slices.Sort(cmd.Env)
	scrub := newScrubber(secrets)
	c, err := startChild(cmd, log, scrub)
	return c, scrub, err
}

// reach prepares HTTP. Secrets are read at each request, so a new one needs no
// new session.
func (m *MCPServers) reach(server *spec.MCPServer) (string, *mcpTripper, func() scrubber, error) {
	def := server.HTTP
	r := def.Request()
	env, err := r.EnvValues(m.config.LookupEnv)
	if err != nil {
		return "", nil, nil, unready(codeMisconfigured, err)
	}
	endpoint, err := def.URL.URL(map[string]json.RawMessage{"env": env})
	if err != nil {
		return "", nil, nil, unready(codeMisconfigured, err)
	}
	secrets := func() (json.RawMessage, scrubber, error) {
		raw, err := r.SecretValues(m.config.LookupEnv, m.config.ReadFile)
		if err != nil {
			return nil, scrubber{}, err
		}
		var values map[string]string
		err = json.Unmarshal(raw, &values)
		return raw, newScrubber(values), err
	}
	if _, _, err := secrets(); err != nil {
		return "", nil, nil, unready(codeMisconfigured, err)
	}
	base := func() (http.RoundTripper, error) {
		to, err := egress.ReachOf(server.TLS, server.AllowHosts, m.config.LookupEnv, m.config.ReadFile)
		if err != nil {
			return nil, err
		}
		return m.config.Egress.Transport(to)
	}
	if _, err := base(); err != nil {
		return "", nil, nil, unready(codeMisconfigured, err)
	}
	trip := &mcpTripper{base: base, headers: func() (http.Header, error) {
		raw, _, err := secrets()
		if err != nil {
			return nil, err
		}
		h := http.Header{}
		for name, t := range def.Headers {
			v, err := t.Text(map[string]json.RawMessage{"env": env, "secret": raw})
			if err != nil {
				return nil, fmt.Errorf("header %s: %w", name, err)
			}
			h.Set(name, v)
		}
		return h, nil
	}}
	return endpoint, trip, func() scrubber { _, s, _ := secrets(); return s }, nil
}

// over reports whether the session cannot be used any more. One that leaves
// three calls in a row without an answer is given up.
func (s *session) over() bool {
	select {
	case <-s.ended:
		return true
	default:
		return s.lost.Load() || s.silent.Load() >= 3
	}
}

func (s *session) served() bool       { return s.answered.Load() > 0 }
func (s *session) lastUse() time.Time { return time.Unix(s.used.Load(), 0) }

func (s *session) close() { _ = s.client.Close() } // the other side is told, or gone

// listed is a tool as the server has it now.
type listed struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
	// OutputSchema is what the server declares; it is no part of the digest.
	OutputSchema json.RawMessage            `json:"outputSchema"`
	Annotations  map[string]json.RawMessage `json:"annotations"`
}

const (
	maxListedTools = 2000
	maxListPages   = 100
)

// list returns the server's tools, asked for now.
func (s *session) list(ctx context.Context) ([]listed, error) {
	s.used.Store(time.Now().Unix())
	var all []listed
	cursor := ""
	for range maxListPages {
		ctx, x := withExchange(ctx)
		_, err := s.client.ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor})
		_, status, _, raw := x.known()
		if raw == nil {
			if status == http.StatusNotFound || status == http.StatusBadRequest {
				s.lost.Store(true)
			}
			if err == nil {
				err = errors.New("no answer")
			}
			return nil, err
		}
		var page struct {
			Tools      []*listed `json:"tools"`
			NextCursor string    `json:"nextCursor"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return nil, fmt.Errorf("read the list of tools: %w", err)
		}
		for _, t := range page.Tools {
			if t != nil {
				all = append(all, *t)
			}
		}
		if len(all) > maxListedTools {
			return nil, fmt.Errorf("the server has more than %d tools", maxListedTools)
		}
		if cursor = page.NextCursor; cursor == "" {
			return all, nil
		}
	}
	return nil, fmt.Errorf("the list of tools has more than %d pages", maxListPages)
}

// digestNow returns the digest of the server's present tool, and the schema that
// it declares for results, if any; false when it has no tool of that name.
func (s *session) digestNow(ctx context.Context, tool string) (events.Digest, *spec.Schema, bool, error) {
	all, err := s.list(ctx)
	if err != nil {
		return "", nil, false, err
	}
	for _, t := range all {
		if t.Name == tool {
			d, err := spec.SchemaDigest(t.Name, t.Description, t.InputSchema)
			declared, serr := spec.NewSchema(t.OutputSchema)
			if serr != nil { // none, or one that nothing can be held to
				declared = nil
			}
			return d, declared, err == nil, nil // what cannot be digested is not what was pinned
		}
	}
	return "", nil, false, nil
}
