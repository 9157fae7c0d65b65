package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// What a start does that finds a key full.
const (
	WhenFullQueue   = "queue"   // the run waits for its place
	WhenFullReplace = "replace" // the oldest holder is cancelled, and who waits; the newest begins
	WhenFullReject  = "reject"  // the run fails
)

// What a key is compared within.
const (
	ScopeAgent     = "agent"     // runs of this agent or flow
	ScopeNamespace = "namespace" // runs of all that have such a key
)

const (
	maxConcurrency    = 3
	maxConcurrent     = 10_000
	maxConcurrencyKey = 1 << 10
)

// ConcurrencyVariables are what a key can read: the run's input and labels, and how
// it was started, {kind, name, id}.
var ConcurrencyVariables = []string{"input", "labels", "trigger"}

// Concurrency is one limit on runs that are open at once.
type Concurrency struct {
	// Key says which runs count together; nil counts all of them.
	Key *KeyExpression `json:"key,omitempty"`
	Max int64          `json:"max"` // how many runs are open at once
	// WhenFull is WhenFullQueue (empty means it), WhenFullReplace or WhenFullReject.
	WhenFull string `json:"whenFull,omitempty"`
	// QueueMax is how many runs may wait; a further one fails. Zero is no bound.
	QueueMax int64 `json:"queueMax,omitempty"`
	// Scope is ScopeAgent (empty means it) or ScopeNamespace, which needs a key.
	Scope string `json:"scope,omitempty"`
}

func (d *decoder) concurrency(s spot, list []Concurrency) {
	if len(list) > maxConcurrency {
		d.fail(s, "has %d limits; at most %d are allowed", len(list), maxConcurrency)
		return
	}
	seen := map[string]bool{}
	for i, c := range list {
		at := s.at(i)
		d.between(at.at("max"), c.Max, 1, maxConcurrent)
		if c.WhenFull != "" {
			d.oneOf(at.at("whenFull"), c.WhenFull, WhenFullQueue, WhenFullReplace, WhenFullReject)
		}
		if c.Scope != "" {
			d.oneOf(at.at("scope"), c.Scope, ScopeAgent, ScopeNamespace)
		}
		text := ""
		if c.Key != nil {
			text = c.Key.text
			c.Key.program = d.program(at.at("key"), text, "a text, a whole number, true or false",
				[]*cel.Type{cel.StringType, cel.IntType, cel.UintType, cel.BoolType}, ConcurrencyVariables)
		} else if c.Scope == ScopeNamespace {
			d.fail(at.at("scope"), "namespace needs a key: without one the limit is this agent's or flow's")
		}
		switch queues := c.WhenFull == "" || c.WhenFull == WhenFullQueue; {
		case c.QueueMax == 0:
		case !queues:
			d.fail(at.at("queueMax"), "belongs to whenFull: queue")
		default:
			d.between(at.at("queueMax"), c.QueueMax, 1, 1_000_000)
		}
		if id := c.Scope + " " + text; seen[id] {
			d.fail(at, "limits the same runs as one before it")
		} else {
			seen[id] = true
		}
	}
}

// KeyExpression is a CEL expression that gives a text, a whole number, true or
// false. What is said of a Condition's numbers and costs holds for it.
type KeyExpression struct {
	text    string
	program cel.Program
}

func (k *KeyExpression) readNode(d *decoder, s spot) {
	if d.want(s, textNode) {
		k.text = s.n.text
	}
}

// String is the expression.
func (k *KeyExpression) String() string { return k.text }

// MarshalJSON writes the expression as a JSON string.
func (k *KeyExpression) MarshalJSON() ([]byte, error) { return quote(k.text), nil }

// errNoKey is a value that names nothing.
var errNoKey = errors.New("it must be a text of 1 byte to 1 KiB, a whole number, true or false")

// Eval is the key of a run.
func (k *KeyExpression) Eval(values map[string]json.RawMessage) (string, error) {
	if k == nil || k.program == nil {
		return "", errors.New("the key is not compiled")
	}
	vars, err := celVariables(values)
	if err != nil {
		return "", fmt.Errorf("key %q: %w", shorten(k.text), err)
	}
	out, _, err := k.program.Eval(vars)
	if err != nil {
		return "", fmt.Errorf("key %q: %w", shorten(k.text), err)
	}
	switch v := out.(type) {
	case types.String:
		if len(v) == 0 || len(v) > maxConcurrencyKey || !utf8.ValidString(string(v)) {
			return "", fmt.Errorf("key %q gave a text of %d bytes; %w", shorten(k.text), len(v), errNoKey)
		}
		return string(v), nil
	case types.Int:
		return strconv.FormatInt(int64(v), 10), nil
	case types.Uint:
		return strconv.FormatUint(uint64(v), 10), nil
	case types.Bool:
		return strconv.FormatBool(bool(v)), nil
	}
	return "", fmt.Errorf("key %q gave %s; %w", shorten(k.text), out.Type().TypeName(), errNoKey)
}

// ConcurrencyKeys are the keys of a run of the agent or flow ref, in the order in
// which they stand there. An error names the limit whose key has no value.
func ConcurrencyKeys(list []Concurrency, ref events.Ref, input json.RawMessage, labels map[string]string, trigger events.Trigger) ([]events.ConcurrencyKey, error) {
	if len(list) == 0 {
		return nil, nil
	}
	if len(input) == 0 {
		input = json.RawMessage("null")
	}
	if labels == nil {
		labels = map[string]string{}
	}
	values := map[string]json.RawMessage{"input": input}
	for name, v := range map[string]any{"labels": labels, "trigger": trigger} {
		raw, err := events.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("concurrency: %w", err)
		}
		values[name] = raw
	}
	var out []events.ConcurrencyKey
	for i, c := range list {
		k := events.ConcurrencyKey{Shown: ref.Kind + " " + ref.Name, Max: c.Max, WhenFull: c.WhenFull, QueueMax: c.QueueMax}
		if k.WhenFull == "" {
			k.WhenFull = WhenFullQueue
		}
		id := []string{ScopeAgent, ref.Kind, ref.Name}
		if c.Key != nil {
			value, err := c.Key.Eval(values)
			if err != nil {
				return nil, fmt.Errorf("concurrency[%d]: %w", i, err)
			}
			k.Shown = value
			id = append(id, c.Key.text, value)
			if c.Scope == ScopeNamespace {
				id = []string{ScopeNamespace, value}
			}
		}
		if c.Scope != ScopeNamespace {
			k.Name = ref.Name
		}
		k.Shown = events.ShownKey(k.Shown)
		raw, err := events.Marshal(id)
		if err != nil {
			return nil, fmt.Errorf("concurrency[%d]: %w", i, err)
		}
		k.Key = events.DigestOf(raw)
		out = append(out, k)
	}
	return out, nil
}
