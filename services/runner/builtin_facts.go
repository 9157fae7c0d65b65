package runner

import (
	"encoding/json"
	"fmt"
	"slices"
	"unicode"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// factsCall is a call of the built-in facts. It changes all that it names or
// nothing.
func (d *decision) factsCall(_ *Plan, c *Call) (*events.Problem, error) {
	var args struct {
		Set    map[string]json.RawMessage `json:"set"` // as canonical as the arguments are
		Delete []string                   `json:"delete"`
		Get    []string                   `json:"get"`
	}
	if err := json.Unmarshal(c.Args, &args); err != nil {
		return refuseHere("%v", err), nil
	}
	body := events.FactsChanged{CallID: c.CallID, Set: args.Set, Delete: unique(args.Delete), Get: unique(args.Get)}
	body.All = args.Set == nil && args.Delete == nil && args.Get == nil
	for _, name := range body.Delete {
		if _, both := body.Set[name]; both {
			return refuseHere("%q is to be set and deleted", clip(name, 80)), nil
		}
	}
	for _, name := range sortedKeys(body.Set) {
		if err := checkFact(name, body.Set[name]); err != nil {
			return refuseHere("%v", err), nil
		}
	}
	if err := checkFacts(body.Fold(d.state.NamedFacts)); err != nil {
		return refuseHere("%v", err), nil
	}
	return nil, d.add(events.FactFactsChanged, body, false)
}

// unique drops repeats and keeps the order.
func unique(list []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, x := range list {
		if !seen[x] {
			out, seen[x] = append(out, x), true
		}
	}
	return out
}

func checkFact(name string, value json.RawMessage) error {
	switch {
	case name == "":
		return fmt.Errorf("a fact needs a name")
	case len(name) > spec.MaxFactName:
		return fmt.Errorf("the name %q has %d bytes; at most %d are allowed", clip(name, 80), len(name), spec.MaxFactName)
	case len(value) > spec.MaxFactBytes:
		return fmt.Errorf("fact %q has %d bytes; at most %d are kept. Save it as an artifact and keep its id", name, len(value), spec.MaxFactBytes)
	}
	for _, r := range name {
		if !unicode.IsPrint(r) {
			return fmt.Errorf("the name %q has a character that cannot be shown", clip(name, 80))
		}
	}
	return nil
}

// checkFacts bounds all facts together.
func checkFacts(all map[string]json.RawMessage) error {
	size := 0
	for name, value := range all {
		size += len(name) + len(value)
	}
	switch {
	case len(all) > spec.MaxFacts:
		return fmt.Errorf("there would be %d facts; at most %d are kept. Delete some", len(all), spec.MaxFacts)
	case size > spec.MaxFactsBytes:
		return fmt.Errorf("all facts would have %d bytes; at most %d are kept. Delete some", size, spec.MaxFactsBytes)
	}
	return nil
}

// factsChanged folds a row of facts. What the model reads is a function of the
// row and what is known, so a row is as large as what is new.
func (s *State) factsChanged(seq int64, f events.FactsChanged) error {
	s.NamedFacts = f.Fold(s.NamedFacts)
	result := struct {
		Known   int                        `json:"known"` // after the call
		Facts   map[string]json.RawMessage `json:"facts,omitempty"`
		Missing []string                   `json:"missing,omitempty"`
	}{Known: len(s.NamedFacts)}
	if f.All {
		result.Facts = s.NamedFacts
	}
	for _, name := range f.Get {
		value, ok := s.NamedFacts[name]
		if !ok {
			result.Missing = append(result.Missing, name)
			continue
		}
		if result.Facts == nil {
			result.Facts = map[string]json.RawMessage{}
		}
		result.Facts[name] = value
	}
	slices.Sort(result.Missing)
	return s.answeredHere(seq, f.CallID, result)
}
