package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
)

const (
	maxConditionBytes = 4 << 10
	conditionCost     = 100_000
)

// Condition is a CEL expression that is true or false. Its variables are JSON
// values of any shape. It has no clock, no I/O and a cost limit.
//
// Numbers: whole numbers from -2^63 to 2^64-1 are CEL int (or uint above
// 2^63-1) and compare exactly, whatever their spelling (10, 10.0, 1e1); other
// numbers are doubles. A number that a double cannot hold to its last digit is
// an error, so data is never compared inexactly. What remains inexact is a
// double literal beyond 2^53 in the expression itself, and CEL's arithmetic:
// int and double do not mix in + - * /, which is an error too; write
// double(args.price) * 1.1.
//
// A Condition is immutable and safe for concurrent use.
type Condition struct {
	text    string
	program cel.Program
}

// NewCondition compiles text over the named variables.
func NewCondition(text string, variables ...string) (*Condition, error) {
	d := newDecoder("")
	c := &Condition{text: text}
	d.compile(spot{}, c, variables...)
	return c, join(d.problems)
}

func (c *Condition) readNode(d *decoder, s spot) {
	if d.want(s, textNode) {
		c.text = s.n.text
	}
}

// String is the expression.
func (c *Condition) String() string { return c.text }

// MarshalJSON writes the expression as a JSON string.
func (c *Condition) MarshalJSON() ([]byte, error) { return quote(c.text), nil }

var (
	environmentsMu sync.Mutex
	environments   = map[string]*cel.Env{}
)

func environment(variables []string) (*cel.Env, error) {
	environmentsMu.Lock()
	defer environmentsMu.Unlock()
	key := strings.Join(variables, " ")
	if env, ok := environments[key]; ok {
		return env, nil
	}
	options := []cel.EnvOption{cel.CrossTypeNumericComparisons(true)}
	for _, v := range variables {
		options = append(options, cel.Variable(v, cel.DynType))
	}
	env, err := cel.NewEnv(options...)
	if err == nil {
		environments[key] = env
	}
	return env, err
}

// compile readies a condition that stands at s for Eval.
func (d *decoder) compile(s spot, c *Condition, variables ...string) {
	if c == nil || d.failed[s.path] {
		return
	}
	c.program = d.program(s, c.text, "true or false", []*cel.Type{cel.BoolType}, variables)
}

// program compiles the expression text, whose value must be of one of types.
func (d *decoder) program(s spot, text, gives string, types []*cel.Type, variables []string) cel.Program {
	switch {
	case strings.TrimSpace(text) == "":
		d.fail(s, "is required: a CEL expression that is %s", gives)
		return nil
	case len(text) > maxConditionBytes:
		d.fail(s, "the expression has %d bytes; at most %d are allowed", len(text), maxConditionBytes)
		return nil
	}
	env, err := environment(variables)
	if err != nil {
		d.fail(s, "prepare CEL: %s", err)
		return nil
	}
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		d.compileIssues(s, text, issues, variables)
		return nil
	}
	if t := ast.OutputType(); !t.IsExactType(cel.DynType) && !slices.ContainsFunc(types, t.IsExactType) {
		d.fail(s, "the expression gives %s; it must be %s", t, gives)
		return nil
	}
	program, err := env.Program(ast, cel.CostLimit(conditionCost), cel.InterruptCheckFrequency(100))
	if err != nil {
		d.fail(s, "prepare CEL: %s", err)
		return nil
	}
	return program
}

// compileIssues reports each problem at its own place in the document when the
// expression stands there as written, else at the expression, with the place
// inside it in the message.
func (d *decoder) compileIssues(s spot, text string, issues *cel.Issues, variables []string) {
	for i, issue := range issues.Errors() {
		if i == 5 {
			return
		}
		line, column := issue.Location.Line(), issue.Location.Column()+1 // CEL's columns count from 0
		msg := firstLine(issue.Message)
		for _, v := range []string{"undeclared reference to '"} {
			if name, ok := strings.CutPrefix(msg, v); ok {
				name, _, _ = strings.Cut(name, "'")
				msg = fmt.Sprintf("there is no %q here; it can be %s", name, strings.Join(variables, ", "))
				if near := Nearest(name, variables); near != "" {
					msg = fmt.Sprintf("there is no %q here; did you mean %q?", name, near)
				}
			}
		}
		p := &Error{File: d.file, Field: s.path, Message: "CEL: " + msg}
		if s.n != nil {
			p.Line, p.Column = s.n.line, s.n.column
		}
		if s.n != nil && s.n.inline >= 0 && line == 1 {
			p.Column += s.n.inline + column - 1
		} else {
			p.Message += fmt.Sprintf(" (line %d, column %d of the expression)", line, column)
		}
		d.failed[s.path] = true
		d.problems = append(d.problems, p)
	}
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return shorten(s)
}

// Eval decides the condition. Values are JSON; a variable without a value is
// an error when the expression reads it. An error is no answer: whoever asks
// for permission asks a person then.
func (c *Condition) Eval(values map[string]json.RawMessage) (bool, error) {
	if c == nil || c.program == nil {
		return false, errors.New("condition is not compiled")
	}
	vars, err := celVariables(values)
	if err != nil {
		return false, fmt.Errorf("condition %q: %w", shorten(c.text), err)
	}
	out, _, err := c.program.Eval(vars)
	if err != nil {
		return false, fmt.Errorf("condition %q: %w", shorten(c.text), err)
	}
	verdict, ok := out.Value().(bool)
	if !ok {
		return false, fmt.Errorf("condition %q gave %s; it must be true or false", shorten(c.text), out.Type().TypeName())
	}
	return verdict, nil
}

func celVariables(values map[string]json.RawMessage) (map[string]any, error) {
	vars := make(map[string]any, len(values))
	for name, raw := range values {
		if raw == nil {
			continue
		}
		n, err := jsonNode(raw)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if vars[name], err = celValue(n); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
	}
	return vars, nil
}

func celValue(n *node) (any, error) {
	switch n.kind {
	case boolNode:
		return n.text == "true", nil
	case textNode:
		return n.text, nil
	case numberNode:
		return celNumber(n.text)
	case listNode:
		list := make([]any, len(n.list))
		for i, item := range n.list {
			var err error
			if list[i], err = celValue(item); err != nil {
				return nil, err
			}
		}
		return list, nil
	case mapNode:
		m := make(map[string]any, len(n.pairs))
		for _, p := range n.pairs {
			var err error
			if m[p.key.text], err = celValue(p.value); err != nil {
				return nil, err
			}
		}
		return m, nil
	}
	return nil, nil
}

// celNumber takes canonical digits (events.Canonical), so a whole number has
// neither point nor exponent while it fits 64 bits.
func celNumber(digits string) (any, error) {
	if i, err := strconv.ParseInt(digits, 10, 64); err == nil {
		return i, nil
	}
	if u, err := strconv.ParseUint(digits, 10, 64); err == nil {
		return u, nil
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err == nil {
		// The shortest decimal that means f must be the one we were given.
		back, ok := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
		want, ok2 := new(big.Rat).SetString(digits)
		if ok && ok2 && back.Cmp(want) == 0 {
			return f, nil
		}
	}
	return nil, fmt.Errorf("number %s cannot be compared exactly", shorten(digits))
}
