package spec

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
)

// Names of the built-in tools.
const (
	BuiltinPlan         = "plan"
	BuiltinFacts        = "facts"
	BuiltinArtifactSave = "artifact_save"
	BuiltinArtifactRead = "artifact_read"
	BuiltinFetchPage    = "fetch_page"
)

// Who answers the calls of a built-in.
const (
	ByRunner = "runner" // in the commit of the model's answer; nothing is sent
	ByTools  = "tools"  // like the calls of any other tool
)

// Builtin is a tool that comes with the product. What it says here is what a
// document gets that leaves it out; the document then holds it, so that a later
// release changes nothing for what was applied before.
type Builtin struct {
	Name   string
	By     string // ByRunner or ByTools
	Effect string // the only one that a document may name
	// Gate says that a document may ask for approval. Calls by ByTools always may.
	Gate bool
	// Free says that a call takes nothing from the run's budget of tool calls.
	// Runs are counted again from their journal, so it never changes for a name.
	Free bool
	// Description is what the model reads.
	Description string
	// Input is the schema of all arguments that the built-in knows. It is compiled
	// once, when it is first asked for.
	Input func() *Schema
}

// builtins is the one table of them, in the order that errors name them.
var builtins = []*Builtin{
	&builtinPlan, &builtinFacts, &builtinSleep, &builtinStartRun, &builtinAskPerson,
	&builtinArtifactSave, &builtinArtifactRead, &builtinFetchPage,
}

// Builtins lists the built-in tools.
func Builtins() []*Builtin { return slices.Clone(builtins) }

// BuiltinNamed finds a built-in; nil when there is none of that name.
func BuiltinNamed(name string) *Builtin {
	for _, b := range builtins {
		if b.Name == name {
			return b
		}
	}
	return nil
}

// AnsweredByRunner is the built-in that the runner answers the tool's calls
// with; nil when they are sent to the tools service or wait for a signal.
func (t *Tool) AnsweredByRunner() *Builtin {
	if b := BuiltinNamed(t.Builtin); b != nil && b.By == ByRunner {
		return b
	}
	return nil
}

func builtinNames() []string {
	var all []string
	for _, b := range builtins {
		all = append(all, b.Name)
	}
	return all
}

// onceSchema compiles a schema of ours when it is first needed.
func onceSchema(text string) func() *Schema {
	return sync.OnceValue(func() *Schema {
		x, err := NewSchema(json.RawMessage(text))
		if err != nil {
			panic(fmt.Sprintf("spec: a built-in's schema: %v", err)) // a constant of this package
		}
		return x
	})
}

// fillBuiltin gives a tool what its document left to the built-in.
func (t *Tool) fillBuiltin() {
	b := BuiltinNamed(t.Builtin)
	if b == nil {
		return
	}
	if t.Description == "" {
		t.Description = b.Description
	}
	if t.Input == nil {
		t.Input = b.Input()
	}
	if t.Effect == "" {
		t.Effect = b.Effect
	}
}

// checkBuiltin refuses what a document says beside the built-in and what would
// never have an effect.
func (t *Tool) checkBuiltin(d *decoder, s spot) {
	if !d.oneOf(s.at("builtin"), t.Builtin, builtinNames()...) {
		for _, field := range []string{"description", "input", "effect"} { // the one that was meant has them
			if s.n.get(field) == nil {
				d.failed[joinPath(s.path, field)] = true
			}
		}
		return
	}
	b := BuiltinNamed(t.Builtin)
	if t.Effect != b.Effect && slices.Contains(effects, t.Effect) {
		d.fail(s.at("effect"), "the effect of %s is %s: say so or leave it out", b.Name, b.Effect)
	}
	t.checkBuiltinInput(d, s, b)
	if b.By != ByRunner {
		return
	}
	about := func(field string, given bool) {
		if given {
			d.fail(s.at(field), "means nothing for %s: its calls are answered where the run is, with the answer that makes them; leave it out", b.Name)
		}
	}
	about("key", t.Key != nil)
	about("inDoubt", t.InDoubt.Default != defaultDoubt(t.Effect) || len(t.InDoubt.Cases) > 0 || t.InDoubt.Probe != nil)
	about("approval", !b.Gate && t.Approval.Mode != ApprovalNever)
	about("timeout", t.Timeout != defaultToolTimeout)
	about("maxOutput", t.MaxOutput != 0)
	about("pool", t.Pool != DefaultPool)
}

// checkBuiltinInput compares a schema that a document gives with the built-in's
// own. It may be narrower: the built-in looks at the arguments itself as well.
func (t *Tool) checkBuiltinInput(d *decoder, s spot, b *Builtin) {
	if t.Input == nil || t.Input.raw == nil {
		return
	}
	given, own := schemaMembers(t.Input), schemaMembers(b.Input())
	for _, name := range names(given.Properties) {
		at := s.at("input", "properties", name)
		mine, known := own.Properties[name]
		switch {
		case !known && own.Closed():
			if near := Nearest(name, names(own.Properties)); near != "" {
				d.fail(at, "%s has no such argument; did you mean %q?", b.Name, near)
			} else {
				d.fail(at, "%s has no such argument; it has %s. Leave input out to get all of them", b.Name, joinNames(own.Properties))
			}
		case known && mine.Type() != "" && given.Properties[name].Type() != "" && mine.Type() != given.Properties[name].Type():
			d.fail(at, "is %s for %s, not %s", mine.Type(), b.Name, given.Properties[name].Type())
		}
	}
	for _, name := range own.Required {
		if _, ok := given.Properties[name]; !ok && given.Closed() {
			d.fail(s.at("input"), "leaves out %s, which every call of %s needs", name, b.Name)
		}
	}
}
