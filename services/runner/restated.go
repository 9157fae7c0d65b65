package runner

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

const (
	restatedBytes     = 16 << 10 // of the plan, and of the facts, that are said in full
	restatedArtifacts = 50
)

// restated is what a run keeps beside its conversation, for behind a summary: its
// plan, its facts and the artifacts that calls left behind.
func (s *State) restated(plan *Plan) string {
	var parts []string
	if len(s.PlanItems) > 0 {
		text := string(mustJSON(s.PlanItems))
		if len(text) > restatedBytes {
			text = string(mustJSON(planCounts(s.PlanItems))) + "; read it with " + plan.toolOf(spec.BuiltinPlan)
		}
		parts = append(parts, "Your plan, as it is now: "+text)
	}
	if len(s.NamedFacts) > 0 {
		text := string(mustJSON(s.NamedFacts))
		if len(text) > restatedBytes {
			text = string(mustJSON(sortedKeys(s.NamedFacts))) + "; read their values with " + plan.toolOf(spec.BuiltinFacts)
		}
		parts = append(parts, "The facts that you keep, as they are now: "+text)
	}
	if list := s.artifacts(); len(list) > 0 {
		parts = append(parts, "Artifacts that your calls left behind: "+strings.Join(list, ", "))
	}
	return strings.Join(parts, "\n\n")
}

// toolOf is the name under which the model knows a built-in.
func (p *Plan) toolOf(builtin string) string {
	for _, name := range sortedKeys(p.Tools) {
		if p.Tools[name].Builtin == builtin {
			return name
		}
	}
	return builtin
}

var artifactID = regexp.MustCompile(`"artifact":\s*"(a-[0-9a-f]{8,64})"(?:,\s*"name":\s*("(?:[^"\\]|\\.){1,200}"))?`)

// artifacts names the newest artifacts of the run's calls by id, and by name where
// the result says one. What others say in results is no id.
func (s *State) artifacts() []string {
	var out []string
	seen := map[string]bool{}
	for i := len(s.Turns) - 1; i >= 0; i-- {
		for _, c := range s.CallsInOrder(i) {
			if c.Done == nil || c.Done.Status != events.CallSucceeded {
				continue
			}
			for _, m := range artifactID.FindAllSubmatch(c.Done.Result, -1) {
				id, name := string(m[1]), ""
				if seen[id] {
					continue
				}
				if len(out) == restatedArtifacts {
					slices.Reverse(out)
					return append([]string{"(the newest)"}, out...)
				}
				if json.Unmarshal(m[2], &name) == nil && name != "" {
					name = fmt.Sprintf(" (%s)", name)
				}
				seen[id], out = true, append(out, id+name)
			}
		}
	}
	slices.Reverse(out)
	return out
}
