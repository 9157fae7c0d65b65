package spec

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// BuiltinStartRun starts a run of an agent or a flow.
const BuiltinStartRun = "start_run"

const (
	// DefaultMaxChildren is how many runs a run may start by one tool that says nothing.
	DefaultMaxChildren = 10
	maxMaxChildren     = 100
	maxStartable       = 20
	// MaxRunDepth is how many runs may be above one that a call or a flow's step starts.
	MaxRunDepth = 5
)

// StartRun is what the calls of a tool may start.
type StartRun struct {
	Agents []string `json:"agents,omitempty"` // names of Agents that may be started
	Flows  []string `json:"flows,omitempty"`  // names of Flows that may be started
	// MaxChildren bounds the runs that one run starts by this tool; default
	// DefaultMaxChildren.
	MaxChildren int64 `json:"maxChildren"`
	// Wait makes the run's end the call's result; default true. Else the result is
	// the run's id, at once.
	Wait *bool `json:"wait"`
}

// Waits reports whether a call waits for the run's end.
func (x *StartRun) Waits() bool { return x.Wait == nil || *x.Wait }

// fill sets defaults, of the tool too: what the model may start is in what it
// reads.
func (x *StartRun) fill(t *Tool) {
	if x.MaxChildren == 0 {
		x.MaxChildren = DefaultMaxChildren
	}
	if x.Wait == nil {
		x.Wait = new(true)
	}
	if t.Builtin != BuiltinStartRun {
		return
	}
	if t.Description == "" {
		t.Description = x.describe()
	}
	if t.Input == nil {
		t.Input = x.input()
	}
}

func (x *StartRun) describe() string {
	var b strings.Builder
	b.WriteString("Starts a run of ")
	list := func(what string, names []string) {
		if len(names) == 0 {
			return
		}
		if b.Len() > len("Starts a run of ") {
			b.WriteString(", or of ")
		}
		fmt.Fprintf(&b, "the %s %s", what, strings.Join(names, ", "))
	}
	list(events.KindAgent, x.Agents)
	list(events.KindFlow, x.Flows)
	if x.Waits() {
		b.WriteString(". The result is how it ended: its output or its error. ")
	} else {
		b.WriteString(". The result is its id, at once; the run goes on by itself. ")
	}
	fmt.Fprintf(&b, "At most %d runs. An input that does not fit is answered with what is wrong, and nothing is started.", x.MaxChildren)
	return b.String()
}

// input is the schema of the arguments, with the names that may be started.
func (x *StartRun) input() *Schema {
	properties := map[string]any{"input": map[string]any{"description": "The input of the run; an empty object when left out"}}
	choice := func(kind string, names []string) {
		if len(names) > 0 {
			properties[kind] = map[string]any{"type": "string", "enum": names, "description": "Which " + kind + " to start"}
		}
	}
	choice(events.KindAgent, x.Agents)
	choice(events.KindFlow, x.Flows)
	doc := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	switch {
	case len(x.Flows) == 0 && len(x.Agents) > 1:
		doc["required"] = []string{events.KindAgent}
	case len(x.Agents) == 0 && len(x.Flows) > 1:
		doc["required"] = []string{events.KindFlow}
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil
	}
	schema, err := NewSchema(raw)
	if err != nil {
		return nil // names that are none, or the same one twice; check says so
	}
	return schema
}

func (x *StartRun) check(d *decoder, s spot, t *Tool) {
	if t.Builtin != BuiltinStartRun {
		d.fail(s, "belongs to builtin: start_run")
		return
	}
	d.nameList(s.at("agents"), x.Agents, maxStartable)
	d.nameList(s.at("flows"), x.Flows, maxStartable)
	d.require(s, len(x.Agents)+len(x.Flows) > 0, "agents or flows that the calls may start")
	d.between(s.at("maxChildren"), x.MaxChildren, 1, maxMaxChildren)
}

// references names what the calls may start.
func (x *StartRun) references() (out []Reference) {
	for i, name := range x.Agents {
		out = append(out, Reference{Kind: KindAgent, Name: name, Field: fmt.Sprintf("spec.startRun.agents[%d]", i)})
	}
	for i, name := range x.Flows {
		out = append(out, Reference{Kind: KindFlow, Name: name, Field: fmt.Sprintf("spec.startRun.flows[%d]", i)})
	}
	return out
}

// builtinStartRun is answered by the child run's end, or at once.
var builtinStartRun = Builtin{
	Name: BuiltinStartRun, By: ByRunner, Effect: EffectIdempotent, Gate: true,
	Description: "Starts a run and returns how it ended.",
	Input: onceSchema(`{
		"type": "object",
		"properties": {
			"agent": {"type": "string", "description": "Which agent to start"},
			"flow": {"type": "string", "description": "Which flow to start"},
			"input": {"description": "The input of the run"}
		},
		"additionalProperties": false
	}`),
}
