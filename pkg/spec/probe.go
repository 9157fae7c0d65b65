package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Probe is a lookup that says whether a call happened whose outcome nobody
// knows. It never acts: an HTTP request that reads, or a tool of an MCP server
// that is declared to read.
type Probe struct {
	HTTP *HTTP `json:"http,omitempty"` // GET or HEAD
	MCP  *MCP  `json:"mcp,omitempty"`  // exactly one of HTTP and MCP
	// Effect is EffectRead; required with MCP, whose tools could do anything.
	Effect string `json:"effect,omitempty"`
	// Args are what the lookup is called with, over ${args...} and ${key}, the
	// key of the action; the templates of HTTP read them as args. Default: the
	// call's arguments.
	Args *Template `json:"args,omitempty"`
	// Happened and NotHappened are over args, the call's arguments, and answer:
	// {status, body}. When neither holds, or both, or one cannot be decided, the
	// lookup has decided nothing. Without NotHappened no lookup says no.
	Happened    *Condition `json:"happened"`
	NotHappened *Condition `json:"notHappened,omitempty"` // CEL over answer and args: it surely did not; absent: no lookup says so
	// Result is what the call returns when it happened, over ${args...} and
	// ${answer...}; default a note.
	Result *Template `json:"result,omitempty"`
	// After is when the first lookup follows the doubt; default 2 s. Between
	// lookups Every passes, doubling to a minute; default 5 s.
	After Duration `json:"after"`
	Every Duration `json:"every"` // between lookups, doubling up to a minute
	// GiveUpAfter ends it, counted from the doubt; default 10 m. Then says what
	// follows: PolicyAsk, the default, or PolicyFail.
	GiveUpAfter Duration `json:"giveUpAfter"`
	Then        string   `json:"then"` // ask or fail, after the last lookup
}

func (p *Probe) fill() {
	if p.HTTP != nil {
		p.HTTP.fill(EffectRead)
	}
	if p.After == 0 {
		p.After = Duration(2 * time.Second)
	}
	if p.Every == 0 {
		p.Every = Duration(5 * time.Second)
	}
	if p.GiveUpAfter == 0 {
		p.GiveUpAfter = Duration(10 * time.Minute)
	}
	if p.Then == "" {
		p.Then = PolicyAsk
	}
}

func (p *Probe) check(d *decoder, s spot) {
	d.exactlyOne(s, map[string]bool{"http": p.HTTP != nil, "mcp": p.MCP != nil})
	if p.HTTP != nil {
		p.HTTP.check(d, s.at("http"))
		if m := p.HTTP.Method; m != "GET" && m != "HEAD" {
			d.also(s.at("http", "method"), "a lookup never acts: GET or HEAD")
		}
		if p.HTTP.Callback != nil {
			d.also(s.at("http", "callback"), "a lookup is answered at once or not at all")
		}
	}
	if p.MCP != nil {
		p.MCP.check(d, s.at("mcp"))
		d.require(s.at("effect"), p.Effect != "", "read: say that this tool of the server changes nothing")
	}
	if p.Effect != "" {
		d.oneOf(s.at("effect"), p.Effect, EffectRead)
	}
	if p.Args != nil {
		d.roots(p.Args, "args", "key")
	}
	d.require(s.at("happened"), p.Happened != nil, "a CEL expression over args and answer")
	d.compile(s.at("happened"), p.Happened, "args", "answer")
	d.compile(s.at("notHappened"), p.NotHappened, "args", "answer")
	if p.Result != nil {
		d.roots(p.Result, "args", "answer")
	}
	d.within(s.at("after"), p.After, 100*time.Millisecond, time.Hour)
	d.within(s.at("every"), p.Every, 100*time.Millisecond, time.Hour)
	d.within(s.at("giveUpAfter"), p.GiveUpAfter, 100*time.Millisecond, 7*24*time.Hour)
	d.oneOf(s.at("then"), p.Then, PolicyAsk, PolicyFail)
}

// Lookup is the tool that the probe of t calls; its kind, that it reads
// and how it reaches out are set.
func (p *Probe) Lookup(t *Tool) *Tool {
	return &Tool{Metadata: t.Metadata, Effect: EffectRead, HTTP: p.HTTP, MCP: p.MCP, Pool: t.Pool, AllowHosts: t.AllowHosts, TLS: t.TLS}
}

// LookupArgs are the arguments of the lookup for a call with these arguments.
func (p *Probe) LookupArgs(args json.RawMessage, key string) (json.RawMessage, error) {
	if p.Args == nil {
		return args, nil
	}
	text, err := json.Marshal(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return p.Args.Render(map[string]json.RawMessage{"args": args, "key": text})
}

// ErrUndecided says that a lookup's answer does not say whether it happened.
var ErrUndecided = errors.New("the answer does not say whether it happened")

// Decide says whether the call happened, by the lookup's answer. ErrUndecided
// when neither or both conditions hold; another error when one of them cannot
// be decided.
func (p *Probe) Decide(args, answer json.RawMessage) (happened bool, err error) {
	values := map[string]json.RawMessage{"args": args, "answer": answer}
	yes, err := p.Happened.Eval(values)
	if err != nil {
		return false, err
	}
	no := false
	if p.NotHappened != nil {
		if no, err = p.NotHappened.Eval(values); err != nil {
			return false, err
		}
	}
	if yes == no {
		return false, ErrUndecided
	}
	return yes, nil
}

// ResultOf is what the call returns, by the lookup's answer; nil when the
// definition names nothing.
func (p *Probe) ResultOf(args, answer json.RawMessage) (json.RawMessage, error) {
	if p.Result == nil {
		return nil, nil
	}
	return p.Result.Render(map[string]json.RawMessage{"args": args, "answer": answer})
}
