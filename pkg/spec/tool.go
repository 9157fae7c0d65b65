package spec

import (
	"time"
)

// Effect classes of a tool.
const (
	EffectRead       = "read"       // changes nothing; may repeat after a crash
	EffectIdempotent = "idempotent" // may repeat: the second time changes nothing
	EffectWrite      = "write"      // must not repeat
)

var effects = []string{EffectRead, EffectIdempotent, EffectWrite}

// DefaultPool is the worker pool of a tool that names none.
const DefaultPool = "default"

// MaxToolOutput is the most that a model reads of one answer.
const MaxToolOutput = 256 << 10

// Tool is something an agent's model may call.
type Tool struct {
	Metadata `json:"-"`
	// Description, Input and Effect are the built-in's own when its document
	// leaves them out.
	Description string  `json:"description"` // the model reads it
	Input       *Schema `json:"input"`       // of the arguments; an object
	Effect      string  `json:"effect"`      // EffectRead, EffectIdempotent or EffectWrite
	// Key is the business key over ${args...}: two calls with the same key are
	// the same action, whoever makes them. See BusinessKey.
	Key *Template `json:"key,omitempty"`
	// InDoubt says what follows when it is not known whether a call happened.
	InDoubt  InDoubt  `json:"inDoubt"`
	Approval Approval `json:"approval"` // when a person must agree
	asked    *Schema  // of what the model gives, when a person fills in the rest; see AskedInput
	// ApprovalExpiresAfter is how long a question waits for a person; default
	// 72 h. ApprovalValidFor is how long a yes is good; default 24 h.
	ApprovalExpiresAfter Duration `json:"approvalExpiresAfter"`
	ApprovalValidFor     Duration `json:"approvalValidFor"` // how long a yes is good
	// Preview is over ${args...}: the line that a person reads who is asked about a
	// call, beside its arguments. See PreviewOf.
	Preview *Template `json:"preview,omitempty"`
	// Timeout bounds one attempt; default 30 s.
	Timeout Duration `json:"timeout"`
	// MaxOutput bounds what the model reads of one answer, 256 bytes to 256 KiB;
	// default what the kind of tool reads at most. The rest is an artifact.
	MaxOutput Size `json:"maxOutput,omitempty"`
	// OutputSchema is of what a call returns. A read that breaks it is a failed
	// call; of an act that happened the model is told that the answer has another
	// shape.
	OutputSchema *Schema `json:"outputSchema,omitempty"`
	// Limits are of all workers together; none by default.
	Limits *Limits `json:"limits,omitempty"`
	// AllowHosts lists hosts that may be reached although their addresses are
	// private: "billing.internal", "10.1.2.3:8080".
	AllowHosts []string `json:"allowHosts,omitempty"`
	TLS        *TLS     `json:"tls,omitempty"`     // with HTTP
	Pool       string   `json:"pool"`              // default DefaultPool
	HTTP       *HTTP    `json:"http,omitempty"`    // one request of HTTP
	Builtin    string   `json:"builtin,omitempty"` // exactly one of HTTP, Builtin, Signal, MCP and NATS
	// Signal makes a call wait for a signal; the runner answers it.
	Signal *SignalWait `json:"signal,omitempty"`
	// StartRun belongs to the built-in start_run, AskPerson to ask_person.
	StartRun  *StartRun  `json:"startRun,omitempty"`
	AskPerson *AskPerson `json:"askPerson,omitempty"` // of the built-in ask_person
	MCP       *MCP       `json:"mcp,omitempty"`       // a tool of an MCPServer
	NATS      *NATS      `json:"nats,omitempty"`      // a question over NATS
}

func (t *Tool) fill() {
	if t.StartRun != nil {
		t.StartRun.fill(t)
	}
	t.fillBuiltin()
	if t.InDoubt.Default == "" {
		t.InDoubt.Default = defaultDoubt(t.Effect)
	}
	if t.InDoubt.Probe != nil {
		t.InDoubt.Probe.fill()
	}
	if t.Approval.Mode == "" {
		t.Approval.Mode = ApprovalNever
		if t.MCP != nil { // somebody else's program: a person agrees until the definition says otherwise
			t.Approval.Mode = ApprovalAlways
		}
	}
	t.fillForm()
	if t.ApprovalExpiresAfter == 0 {
		t.ApprovalExpiresAfter = Duration(72 * time.Hour)
	}
	if t.ApprovalValidFor == 0 {
		t.ApprovalValidFor = Duration(24 * time.Hour)
	}
	if t.Timeout == 0 {
		t.Timeout = defaultToolTimeout
	}
	if t.Pool == "" {
		t.Pool = DefaultPool
	}
	if t.HTTP != nil {
		t.HTTP.fill(t.Effect)
	}
	if t.Signal != nil {
		t.Signal.fill()
	}
}

func (t *Tool) check(d *decoder, s spot) {
	if t.Builtin != "" {
		t.checkBuiltin(d, s)
	}
	d.require(s.at("description"), t.Description != "", "the model reads it to decide when to call the tool")
	d.text(s.at("description"), t.Description, 16<<10)
	d.require(s.at("input"), t.Input != nil, "a JSON Schema of the arguments, type: object")
	if n := s.n.get("input"); n != nil && n.kind != nullNode && t.Input != nil && t.Input.raw != nil {
		if kind := s.at("input").n.get("type"); kind == nil || kind.text != "object" {
			d.fail(s.at("input"), "must have type: object; models call tools with an object of arguments")
		}
	}
	d.require(s.at("effect"), t.Effect != "", "read (changes nothing), idempotent (may repeat) or write (must not repeat)")
	known := t.Effect != "" && d.oneOf(s.at("effect"), t.Effect, effects...)
	if t.Key != nil {
		if known && t.Effect == EffectRead {
			d.fail(s.at("key"), "a read acts on nothing and is not kept, so it has no key")
		}
		d.keyTemplate(s.at("key"), t.Key)
	}
	t.InDoubt.check(d, s.at("inDoubt"))
	if t.InDoubt.Probe != nil && known && t.Effect != EffectWrite {
		d.also(s.at("inDoubt", "probe"), "is for writes: a tool whose effect is %s is simply repeated", t.Effect)
	}
	t.Approval.check(d, s.at("approval"))
	t.checkForm(d, s)
	if r := t.Approval.Rule; r != nil && r.AtExpiry != AtExpiryKeep {
		r.Remind.before(d, s.at("approval", "remind"), t.ApprovalExpiresAfter)
		r.Escalate.before(d, s.at("approval", "escalate"), t.ApprovalExpiresAfter)
	}
	d.within(s.at("approvalExpiresAfter"), t.ApprovalExpiresAfter, time.Second, 90*24*time.Hour)
	d.within(s.at("approvalValidFor"), t.ApprovalValidFor, time.Second, 90*24*time.Hour)
	d.previewTemplate(s.at("preview"), t.Preview)
	d.within(s.at("timeout"), t.Timeout, 100*time.Millisecond, 15*time.Minute)
	if t.MaxOutput != 0 && (t.MaxOutput < 256 || t.MaxOutput > MaxToolOutput) {
		d.fail(s.at("maxOutput"), "%d bytes is outside 256 to %d; what is longer becomes an artifact", t.MaxOutput, int64(MaxToolOutput))
	}
	d.name(s.at("pool"), t.Pool)
	t.checkOutgoing(d, s)
	d.exactlyOne(s, map[string]bool{"http": t.HTTP != nil, "builtin": t.Builtin != "", "signal": t.Signal != nil, "mcp": t.MCP != nil, "nats": t.NATS != nil})
	if t.HTTP != nil {
		t.HTTP.check(d, s.at("http"))
		if t.HTTP.Callback != nil && known && t.Effect == EffectRead {
			d.fail(s.at("http", "callback"), "a read leaves nothing that could wait; effect: idempotent, when repeating it does no harm")
		}
	}
	if t.Signal != nil {
		t.Signal.check(d, s.at("signal"), t, s)
	}
	if t.MCP != nil {
		t.MCP.check(d, s.at("mcp"))
	}
	if t.NATS != nil {
		t.NATS.check(d, s.at("nats"))
	}
	if t.StartRun != nil {
		t.StartRun.check(d, s.at("startRun"), t)
	}
	if t.AskPerson != nil {
		t.AskPerson.check(d, s.at("askPerson"), t)
	}
	d.require(s.at("startRun"), t.StartRun != nil || t.Builtin != BuiltinStartRun, "what the calls may start")
}

// References names the MCP servers that the tool and its probe call, what it starts,
// and the channels of its escalation.
func (t *Tool) References() []Reference {
	out := t.Approval.references("approval")
	if t.StartRun != nil {
		out = append(out, t.StartRun.references()...)
	}
	if t.MCP != nil {
		out = append(out, Reference{Kind: KindMCPServer, Name: t.MCP.Server, Field: "spec.mcp.server"})
	}
	if p := t.InDoubt.Probe; p != nil && p.MCP != nil {
		out = append(out, Reference{Kind: KindMCPServer, Name: p.MCP.Server, Field: "spec.inDoubt.probe.mcp.server"})
	}
	return out
}

func defaultDoubt(effect string) string {
	if effect == EffectWrite {
		return PolicyAsk
	}
	return PolicyRetry
}
