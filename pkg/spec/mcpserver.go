package spec

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// MCPServer says how a server of the Model Context Protocol is reached. Its
// tools become Tool documents by "holdfast tools import --mcp NAME".
type MCPServer struct {
	Metadata    `json:"-"`
	Description string    `json:"description,omitempty"` // what it is for, for people
	Stdio       *MCPStdio `json:"stdio,omitempty"`       // a program on the machine of the tools service
	HTTP        *MCPHTTP  `json:"http,omitempty"`        // exactly one of Stdio and HTTP
	// Pool is where the calls of its tools run; default DefaultPool. Workers of
	// other pools never connect to it.
	Pool string `json:"pool"`
	// AllowHosts and TLS are as in Tool, with HTTP.
	AllowHosts []string `json:"allowHosts,omitempty"`
	TLS        *TLS     `json:"tls,omitempty"` // of the connection; absent: the system's authorities
	// Defaults are what an import writes into the tools' documents.
	Defaults MCPDefaults `json:"defaults"`
	// Allow, when given, lists the only tools that may be imported and called,
	// by the server's names; Deny lists tools that may not.
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"` // tools that may not be used
	// ConnectTimeout bounds start and handshake; default 20 s.
	ConnectTimeout Duration `json:"connectTimeout"`
}

// MCPDefaults are the policies of a server's tools. What the server says about
// its tools changes none of them.
type MCPDefaults struct {
	Effect   string   `json:"effect"`   // default EffectWrite
	InDoubt  InDoubt  `json:"inDoubt"`  // default as in Tool
	Approval Approval `json:"approval"` // default ApprovalAlways
	Timeout  Duration `json:"timeout"`  // of one call; default 30 s
}

// MCPStdio starts the server as a program and speaks over its standard input
// and output. It gets PATH, HOME and Env, and nothing else of the environment.
type MCPStdio struct {
	Command string              `json:"command"`        // a program's name or absolute path
	Args    []string            `json:"args,omitempty"` // of the program
	Env     map[string]EnvValue `json:"env,omitempty"`  // besides these: PATH and HOME
	Dir     string              `json:"dir,omitempty"`  // absolute; default HOME
}

// MCPHTTP reaches the server at a URL, over streamable HTTP.
type MCPHTTP struct {
	URL     *Template            `json:"url"`               // over ${env...}
	Headers map[string]*Template `json:"headers,omitempty"` // over ${env...} and ${secret...}
	Secrets map[string]SecretRef `json:"secrets,omitempty"` // what headers name as ${secret...}
}

// EnvValue is text, or where a secret is found. In YAML it is text, {env: NAME}
// or {file: PATH}.
type EnvValue struct {
	Text   string
	Secret SecretRef
}

// MarshalJSON writes the YAML form.
func (v EnvValue) MarshalJSON() ([]byte, error) {
	if v.Secret.IsZero() {
		return quote(v.Text), nil
	}
	return json.Marshal(v.Secret)
}

func (v *EnvValue) readNode(d *decoder, s spot) {
	if s.n.kind == textNode {
		v.Text = s.n.text
		return
	}
	v.Secret.readNode(d, s)
}

func (m *MCPServer) fill() {
	if m.Pool == "" {
		m.Pool = DefaultPool
	}
	if m.ConnectTimeout == 0 {
		m.ConnectTimeout = Duration(20 * time.Second)
	}
	x := &m.Defaults
	if x.Effect == "" {
		x.Effect = EffectWrite
	}
	if x.InDoubt.Default == "" {
		x.InDoubt.Default = defaultDoubt(x.Effect)
	}
	if x.Approval.Mode == "" {
		x.Approval.Mode = ApprovalAlways
	}
	if x.Timeout == 0 {
		x.Timeout = Duration(30 * time.Second)
	}
}

func (m *MCPServer) check(d *decoder, s spot) {
	d.text(s.at("description"), m.Description, 16<<10)
	d.exactlyOne(s, map[string]bool{"stdio": m.Stdio != nil, "http": m.HTTP != nil})
	if m.Stdio != nil {
		m.Stdio.check(d, s.at("stdio"))
	}
	if m.HTTP != nil {
		at := s.at("http")
		d.require(at.at("url"), m.HTTP.URL != nil, "where the server is")
		m.HTTP.Request().check(d, at)
		for _, name := range names(m.HTTP.Headers) {
			d.roots(m.HTTP.Headers[name], "env", "secret")
		}
		d.roots(m.HTTP.URL, "env", "secret")
	}
	d.name(s.at("pool"), m.Pool)
	m.TLS.check(d, s.at("tls"))
	d.allowHosts(s.at("allowHosts"), m.AllowHosts)
	if m.HTTP == nil && (m.TLS != nil || len(m.AllowHosts) > 0) {
		d.also(s, "tls and allowHosts are for servers with http")
	}
	x := s.at("defaults")
	d.oneOf(x.at("effect"), m.Defaults.Effect, EffectRead, EffectIdempotent, EffectWrite)
	m.Defaults.InDoubt.check(d, x.at("inDoubt"))
	if m.Defaults.InDoubt.Probe != nil {
		d.also(x.at("inDoubt", "probe"), "belongs into a Tool: a lookup is for one tool")
	}
	m.Defaults.Approval.check(d, x.at("approval"))
	d.within(x.at("timeout"), m.Defaults.Timeout, 100*time.Millisecond, 15*time.Minute)
	d.within(s.at("connectTimeout"), m.ConnectTimeout, 100*time.Millisecond, 5*time.Minute)
	for field, list := range map[string][]string{"allow": m.Allow, "deny": m.Deny} {
		if len(list) > 1000 {
			d.fail(s.at(field), "has %d items; at most 1000 are allowed", len(list))
		}
		for i, name := range list {
			d.mcpName(s.at(field, i), name)
		}
	}
}

// Allows reports whether the server's tool of this name may be used.
func (m *MCPServer) Allows(tool string) bool {
	return (len(m.Allow) == 0 || contains(m.Allow, tool)) && !contains(m.Deny, tool)
}

// References is empty: a server needs nothing beside it.
func (m *MCPServer) References() []Reference { return nil }

func (c *MCPStdio) check(d *decoder, s spot) {
	d.require(s.at("command"), c.Command != "", "the program to start")
	if strings.ContainsAny(c.Command, "\x00\n") || strings.Contains(c.Command, "/") && (!path.IsAbs(c.Command) || path.Clean(c.Command) != c.Command) {
		d.fail(s.at("command"), "%q must be the name of a program, or an absolute path without . and ..", shorten(c.Command))
	}
	if len(c.Args) > 200 {
		d.fail(s.at("args"), "has %d items; at most 200 are allowed", len(c.Args))
	}
	for i, a := range c.Args {
		if strings.Contains(a, "\x00") {
			d.fail(s.at("args", i), "must not hold a NUL")
		}
		d.text(s.at("args", i), a, 16<<10)
	}
	for _, name := range names(c.Env) {
		at := s.at("env", name)
		if !envPattern.MatchString(name) {
			d.fail(at, "%q is not the name of an environment variable", shorten(name))
		}
		if strings.Contains(c.Env[name].Text, "\x00") {
			d.fail(at, "must not hold a NUL")
		}
		d.text(at, c.Env[name].Text, 16<<10)
	}
	if c.Dir != "" && (!path.IsAbs(c.Dir) || path.Clean(c.Dir) != c.Dir) {
		d.fail(s.at("dir"), "%q must be an absolute path without . and ..", shorten(c.Dir))
	}
}

// Request is what the transport has in common with a tool of kind http: where
// it goes and what its headers hold.
func (h *MCPHTTP) Request() *HTTP {
	return &HTTP{Method: "POST", URL: h.URL, Headers: h.Headers, Secrets: h.Secrets, IdempotencyHeader: "Idempotency-Key"}
}

// MCP makes a tool of one tool of an MCP server.
type MCP struct {
	Server string `json:"server"` // an MCPServer
	Tool   string `json:"tool"`   // the server's name for it
	// Schema is the SchemaDigest that the server's tool had when it was
	// imported. A tool that has changed since is refused.
	Schema events.Digest `json:"schema"`
}

func (m *MCP) check(d *decoder, s spot) {
	d.require(s.at("server"), m.Server != "", "the name of an MCPServer")
	if m.Server != "" {
		d.name(s.at("server"), m.Server)
	}
	d.require(s.at("tool"), m.Tool != "", "the server's name for the tool")
	d.mcpName(s.at("tool"), m.Tool)
	d.require(s.at("schema"), m.Schema != "", `the digest that "holdfast tools import --mcp NAME" writes`)
	if m.Schema != "" && !digestPattern.MatchString(string(m.Schema)) {
		d.fail(s.at("schema"), "%q is not a digest like sha256:… with 64 hexadecimal digits", shorten(string(m.Schema)))
	}
}

var digestPattern = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

func (d *decoder) mcpName(s spot, name string) {
	if len(name) > 128 || strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		d.fail(s, "%q is not the name of a tool: at most 128 bytes without control characters", shorten(name))
	}
}

// SchemaDigest covers what a model is told about a tool: name, description and
// input schema, every digit of its numbers included.
func SchemaDigest(name, description string, inputSchema json.RawMessage) (events.Digest, error) {
	raw, err := events.Marshal(struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"inputSchema"`
	}{name, description, inputSchema})
	if err != nil {
		return "", fmt.Errorf("digest of tool %s: %w", shorten(name), err)
	}
	canonical, err := events.Canonical(raw)
	if err != nil {
		return "", fmt.Errorf("digest of tool %s: %w", shorten(name), err)
	}
	return events.DigestOf(canonical), nil
}
