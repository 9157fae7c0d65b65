package spec

import (
	"fmt"
	"strings"
	"time"
)

// What a flow does when an item of a step fails.
const (
	OnFailureFail     = "fail"     // the flow fails
	OnFailureContinue = "continue" // the flow goes on without the item
)

// DefaultStepLimit is how many items of a step run at the same time by default.
const DefaultStepLimit = 10

// Flow is a graph of steps. Each item of a step is a run of its own.
type Flow struct {
	Metadata `json:"-"`
	Input    *Schema `json:"input,omitempty"` // what a start must give; absent: anything
	Steps    []Step  `json:"steps"`           // what is done
	// Budget is shared by all runs that the flow starts, directly or not.
	Budget *FlowBudget `json:"budget,omitempty"`
	// Callback is nil when a start may name none.
	Callback *Callback `json:"callback,omitempty"`
	// Priority is as an agent's, and holds for what the flow starts: what is below a
	// batch run is batch, and so is each item of a list unless it says interactive.
	Priority string  `json:"priority,omitempty"`
	Notify   *Notify `json:"notify,omitempty"` // nil: nobody is told
	// Deadline is as an agent's; what the flow starts has none that is later.
	Deadline Duration `json:"deadline,omitempty"`
	// Concurrency is as an agent's, for runs of the flow.
	Concurrency []Concurrency `json:"concurrency,omitempty"`
	// Approvals is nil when nobody is told of what the run asks.
	Approvals *Approvals `json:"approvals,omitempty"`
}

// Step does one thing, once or for each item of a list: it runs an agent or
// another flow, calls a tool, asks a person, or sleeps.
type Step struct {
	Name string `json:"name"` // how others name it: steps.NAME
	// Exactly one of Agent, Flow, Tool, Approval and Sleep.
	Agent    string        `json:"agent,omitempty"`
	Flow     string        `json:"flow,omitempty"`     // name of a Flow: each item is a run of it
	Tool     string        `json:"tool,omitempty"`     // name of a Tool, called without a model
	Approval *StepQuestion `json:"approval,omitempty"` // a question to a person
	Sleep    *StepPause    `json:"sleep,omitempty"`    // a timer
	// When is a condition over input and steps, decided when the step could begin;
	// false skips the step. nil always runs it.
	When *Condition `json:"when,omitempty"`
	// ForEach names the list, ${input...} or ${steps...}; nil is one item.
	ForEach *Template `json:"forEach,omitempty"`
	// Limit is how many items are open at the same time; 1 without ForEach.
	Limit int64 `json:"limit"`
	// Needs names the steps that must have ended before this one starts.
	Needs []string `json:"needs,omitempty"`
	// Input is over ${input...}, ${item...} (with ForEach) and
	// ${steps.<name>.output} or, for a step with forEach, .outputs (a list in the
	// order of the items, null where one failed); .failures is a list of item,
	// status and error, .skipped is true or false. Only steps that this one needs,
	// directly or not, can be read. Default: the item, or the flow's input. It is
	// what a run starts with, the arguments of a tool, or what a person is shown.
	Input     *Template  `json:"input,omitempty"`
	OnFailure string     `json:"onFailure"`       // OnFailureFail (default) or OnFailureContinue
	Retry     *StepRetry `json:"retry,omitempty"` // tries of an item that surely came to nothing
}

func (f *Flow) fill() {
	for i := range f.Steps {
		st := &f.Steps[i]
		if st.Limit == 0 {
			st.Limit = 1
			if st.ForEach != nil {
				st.Limit = DefaultStepLimit
			}
		}
		if st.OnFailure == "" {
			st.OnFailure = OnFailureFail
		}
		st.fillKind()
		if st.Input == nil && st.Sleep == nil {
			st.Input = mustTemplate(`"${input}"`)
			if st.ForEach != nil {
				st.Input = mustTemplate(`"${item}"`)
			}
		}
	}
}

// Step returns the step of that name, or nil.
func (f *Flow) Step(name string) *Step {
	for i := range f.Steps {
		if f.Steps[i].Name == name {
			return &f.Steps[i]
		}
	}
	return nil
}

func (f *Flow) check(d *decoder, s spot) {
	f.Callback.check(d, s.at("callback"))
	d.priority(s.at("priority"), f.Priority)
	f.Notify.check(d, s.at("notify"))
	d.within(s.at("deadline"), f.Deadline, time.Second, maxDeadline)
	d.concurrency(s.at("concurrency"), f.Concurrency)
	f.Approvals.check(d, s.at("approvals"))
	f.Budget.check(d, s.at("budget"))
	steps := s.at("steps")
	d.require(steps, len(f.Steps) > 0, "at least one step")
	if len(f.Steps) > 100 {
		d.fail(steps, "has %d steps; at most 100 are allowed", len(f.Steps))
		return
	}
	var known []string
	for i := range f.Steps {
		at, st := steps.at(i), &f.Steps[i]
		d.require(at.at("name"), st.Name != "", "a name")
		st.checkKind(d, at)
		if st.Name == "" {
			continue
		}
		d.name(at.at("name"), st.Name)
		if f.Step(st.Name) != &f.Steps[i] {
			d.fail(at.at("name"), "step %q stands here twice", shorten(st.Name))
		}
		known = append(known, st.Name)
	}
	for i := range f.Steps {
		f.checkNeeds(d, steps.at(i), &f.Steps[i], known)
	}
	if cycle := f.cycle(); cycle != nil {
		d.fail(steps.at(f.index(cycle[0]), "needs"), "steps wait for each other: %s", strings.Join(append(cycle, cycle[0]), " needs "))
	}
	for i := range f.Steps {
		f.checkStep(d, steps.at(i), &f.Steps[i])
	}
}

func (f *Flow) checkNeeds(d *decoder, s spot, st *Step, known []string) {
	for i, need := range st.Needs {
		at := s.at("needs", i)
		switch near := Nearest(need, known); {
		case need == st.Name:
			d.fail(at, "a step cannot need itself")
		case f.Step(need) == nil && near != "" && near != st.Name:
			d.fail(at, "there is no step %q; did you mean %q?", shorten(need), near)
		case f.Step(need) == nil:
			d.fail(at, "there is no step %q in this flow", shorten(need))
		}
		for _, earlier := range st.Needs[:i] {
			if earlier == need {
				d.fail(at, "%q stands here twice", shorten(need))
			}
		}
	}
}

func (f *Flow) checkStep(d *decoder, s spot, st *Step) {
	d.oneOf(s.at("onFailure"), st.OnFailure, OnFailureFail, OnFailureContinue)
	d.between(s.at("limit"), st.Limit, 1, 1000)
	roots := []string{"input", "steps"}
	if st.ForEach != nil {
		if _, ok := st.ForEach.onePath(); !ok {
			d.fail(s.at("forEach"), "must be exactly one path to a list, like \"${input.competitors}\"")
		}
		d.roots(st.ForEach, roots...)
		f.checkReads(d, st, st.ForEach)
		roots = append(roots, "item")
	} else if st.Limit != 1 {
		d.fail(s.at("limit"), "only a step with forEach has a limit")
	}
	for _, t := range st.templates() {
		d.roots(t, roots...)
		f.checkReads(d, st, t)
	}
	d.compile(s.at("when"), st.When, "input", "steps")
	f.checkWhen(d, s.at("when"), st)
}

// checkReads checks that ${steps...} names a step that is surely over.
func (f *Flow) checkReads(d *decoder, st *Step, t *Template) {
	before := f.before(st)
	t.each(func(at *form, p Path) {
		if p.Root != "steps" {
			return
		}
		source := f.Step(p.Member())
		switch {
		case p.Member() == "":
			d.also(at.at, "${%s}: name a step, like ${steps.%s.output}", p, f.Steps[0].Name)
		case source == nil:
			d.also(at.at, "${%s}: there is no step %q in this flow%s", p, shorten(p.Member()), didYouMean(p.Member(), f.names()))
		case !before[source.Name]:
			d.also(at.at, "${%s}: step %s may not be over; add it to needs", p, source.Name)
		default:
			members := []string{"output", "outputs", "failures", "skipped"}
			if source.ForEach != nil {
				members = members[1:]
			}
			if len(p.steps) < 2 || !contains(members, p.steps[1].key) {
				d.also(at.at, "${%s}: what can be read of step %s is %s", p, source.Name, strings.Join(members, ", "))
			}
		}
	})
}

func didYouMean(name string, candidates []string) string {
	if near := Nearest(name, candidates); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

func (f *Flow) names() []string {
	out := make([]string, len(f.Steps))
	for i, st := range f.Steps {
		out[i] = st.Name
	}
	return out
}

func (f *Flow) index(name string) int {
	for i, st := range f.Steps {
		if st.Name == name {
			return i
		}
	}
	return 0
}

// before is every step that st needs, directly or not.
func (f *Flow) before(st *Step) map[string]bool {
	seen := map[string]bool{}
	var visit func(*Step)
	visit = func(s *Step) {
		for _, need := range s.Needs {
			if next := f.Step(need); next != nil && !seen[need] {
				seen[need] = true
				visit(next)
			}
		}
	}
	visit(st)
	delete(seen, st.Name)
	return seen
}

// cycle returns steps of which each needs the next and the last the first.
func (f *Flow) cycle() []string {
	const fresh, open, done = 0, 1, 2
	state := map[string]int{}
	var trail []string
	var visit func(*Step) []string
	visit = func(st *Step) []string {
		state[st.Name] = open
		trail = append(trail, st.Name)
		for _, need := range st.Needs {
			next := f.Step(need)
			if next == nil || next.Name == st.Name {
				continue // reported by checkNeeds
			}
			switch state[next.Name] {
			case open:
				for i, name := range trail {
					if name == next.Name {
						return append([]string(nil), trail[i:]...)
					}
				}
			case fresh:
				if c := visit(next); c != nil {
					return c
				}
			}
		}
		state[st.Name] = done
		trail = trail[:len(trail)-1]
		return nil
	}
	for i := range f.Steps {
		if state[f.Steps[i].Name] == fresh {
			if c := visit(&f.Steps[i]); c != nil {
				return c
			}
		}
	}
	return nil
}
