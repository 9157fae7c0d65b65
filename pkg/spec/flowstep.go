package spec

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kinds of step, as the field of the step that has them.
const (
	StepAgent    = "agent"
	StepFlow     = "flow"
	StepTool     = "tool"
	StepApproval = "approval"
	StepSleep    = "sleep"
)

const maxApprovalText = 4000

// StepQuestion is what a person is asked for a yes.
type StepQuestion struct {
	// Text is over the same values as the step's input. It is one plain sentence
	// or a few; the step's input is shown beside it.
	Text *Template `json:"text"`
	// ExpiresAfter is how long the question waits; default 72 h. Nobody's answer
	// is a no.
	ExpiresAfter Duration `json:"expiresAfter"`
}

// StepPause waits until a time. Exactly one of For and Until.
type StepPause struct {
	For   *Template `json:"for,omitempty"`   // a length of time: "30m", "2d", "${input.delay}"
	Until *Template `json:"until,omitempty"` // RFC 3339 with the offset
}

// StepRetry starts failed items of a step again.
type StepRetry struct {
	Attempts int64 `json:"attempts"` // how often an item is started at most, 2 to 10
	// Backoff is the wait before the second attempt; it doubles with each, up to
	// a day. Default 10 s.
	Backoff Duration `json:"backoff"`
}

// Wait is how long a failed item stands before attempt number attempt, which
// is 2 or more.
func (r *StepRetry) Wait(attempt int64) time.Duration {
	return min(r.Backoff.Std()<<min(max(attempt-2, 0), 20), 24*time.Hour)
}

// Kind is which of the kinds the step is.
func (st *Step) Kind() string {
	switch {
	case st.Flow != "":
		return StepFlow
	case st.Tool != "":
		return StepTool
	case st.Approval != nil:
		return StepApproval
	case st.Sleep != nil:
		return StepSleep
	}
	return StepAgent
}

// Starts is the name of what the step starts or calls; empty for an approval
// and a sleep.
func (st *Step) Starts() string { return st.Agent + st.Flow + st.Tool }

func (st *Step) fillKind() {
	if st.Approval != nil && st.Approval.ExpiresAfter == 0 {
		st.Approval.ExpiresAfter = Duration(72 * time.Hour)
	}
	if st.Retry != nil && st.Retry.Backoff == 0 {
		st.Retry.Backoff = Duration(10 * time.Second)
	}
}

// checkKind checks that a step is of one kind, and the fields of that kind.
func (st *Step) checkKind(d *decoder, s spot) {
	d.exactlyOne(s, map[string]bool{
		StepAgent: st.Agent != "", StepFlow: st.Flow != "", StepTool: st.Tool != "", StepApproval: st.Approval != nil, StepSleep: st.Sleep != nil})
	for field, name := range map[string]string{StepAgent: st.Agent, StepFlow: st.Flow, StepTool: st.Tool} {
		if name != "" {
			d.name(s.at(field), name)
		}
	}
	if q := st.Approval; q != nil {
		at := s.at("approval")
		d.require(at.at("text"), q.Text != nil, "what the person says yes or no to")
		if q.Text != nil && !q.Text.isText() {
			d.fail(at.at("text"), "must be text")
		} else if q.Text != nil {
			d.text(at.at("text"), q.Text.String(), maxApprovalText)
		}
		d.within(at.at("expiresAfter"), q.ExpiresAfter, time.Second, 90*24*time.Hour)
	}
	if p := st.Sleep; p != nil {
		p.check(d, s.at("sleep"))
		if s.n.get("input") != nil {
			d.fail(s.at("input"), "a sleep takes no input")
		}
	}
	if r := st.Retry; r != nil {
		at := s.at("retry")
		if st.Approval != nil || st.Sleep != nil {
			d.fail(at, "only a step of kind agent, flow or tool is tried again")
		}
		d.require(at.at("attempts"), r.Attempts != 0, "how often an item is started at most, 2 to 10")
		if r.Attempts != 0 {
			d.between(at.at("attempts"), r.Attempts, 2, 10)
		}
		d.within(at.at("backoff"), r.Backoff, time.Second, 24*time.Hour)
	}
}

func (p *StepPause) check(d *decoder, s spot) {
	d.exactlyOne(s, map[string]bool{"for": p.For != nil, "until": p.Until != nil})
	for _, field := range []struct {
		name string
		t    *Template
		read func(string) error
	}{
		{"for", p.For, func(text string) error { _, err := sleepFor(text); return err }},
		{"until", p.Until, func(text string) error { _, err := sleepUntil(text); return err }},
	} {
		switch {
		case field.t == nil:
		case !field.t.isText():
			d.fail(s.at(field.name), "must be text")
		case len(field.t.Paths()) == 0:
			if err := field.read(field.t.String()); err != nil {
				d.fail(s.at(field.name), "%s", err)
			}
		}
	}
}

func sleepFor(text string) (time.Duration, error) {
	span, err := parseDuration(text)
	if err != nil || span < 0 || span > MaxSleep {
		return 0, fmt.Errorf("%q is not a length of time like \"30s\", \"5m\", \"72h\" or \"7d\", at most 366d", shorten(text))
	}
	return span, nil
}

func sleepUntil(text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is not a time with its offset like \"2026-11-30T07:00:00+01:00\"", shorten(text))
	}
	return at, nil
}

// End is when a sleep that begins at now ends. A time that has passed is now.
func (p *StepPause) End(values map[string]json.RawMessage, now time.Time) (time.Time, error) {
	if p.For != nil {
		text, err := p.For.Text(values)
		if err != nil {
			return time.Time{}, fmt.Errorf("for: %w", err)
		}
		span, err := sleepFor(text)
		if err != nil {
			return time.Time{}, fmt.Errorf("for: %w", err)
		}
		return now.Add(span), nil
	}
	text, err := p.Until.Text(values)
	if err != nil {
		return time.Time{}, fmt.Errorf("until: %w", err)
	}
	at, err := sleepUntil(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("until: %w", err)
	}
	if at.After(now.Add(MaxSleep)) {
		return time.Time{}, fmt.Errorf("until: %s is more than 366 days away", at.Format(time.RFC3339))
	}
	if at.Before(now) {
		return now, nil
	}
	return at, nil
}

// templates are what the step renders for each item, with their fields.
func (st *Step) templates() []*Template {
	out := []*Template{st.Input}
	if st.Approval != nil {
		out = append(out, st.Approval.Text)
	}
	if st.Sleep != nil {
		out = append(out, st.Sleep.For, st.Sleep.Until)
	}
	return out
}

// Holds decides whether a step runs. A step without a condition does.
func (st *Step) Holds(values map[string]json.RawMessage) (bool, error) {
	if st.When == nil {
		return true, nil
	}
	return st.When.Eval(values)
}

// References names what the flow starts and calls.
func (f *Flow) References() []Reference {
	kinds := map[string]string{StepAgent: KindAgent, StepFlow: KindFlow, StepTool: KindTool}
	var refs []Reference
	for i := range f.Steps {
		st := &f.Steps[i]
		if kind, ok := kinds[st.Kind()]; ok {
			refs = append(refs, Reference{Kind: kind, Name: st.Starts(), Field: fmt.Sprintf("spec.steps[%d].%s", i, st.Kind())})
		}
	}
	return append(append(refs, f.Notify.references()...), f.Approvals.references()...)
}

// With is the step with the values of roots filled into what it renders for each
// item.
func (st *Step) With(roots map[string]json.RawMessage) (Step, error) {
	out := *st
	var err error
	fill := func(field string, t *Template) *Template {
		filled, e := t.With(roots)
		if e != nil && err == nil {
			err = fmt.Errorf("%s: %w", field, e)
		}
		return filled
	}
	out.Input = fill("input", st.Input)
	if st.Approval != nil {
		q := *st.Approval
		q.Text = fill("approval.text", q.Text)
		out.Approval = &q
	}
	if st.Sleep != nil {
		p := *st.Sleep
		p.For, p.Until = fill("sleep.for", p.For), fill("sleep.until", p.Until)
		out.Sleep = &p
	}
	return out, err
}

// Before names the steps that st needs, directly or not, in the order of the
// flow: what it can read.
func (f *Flow) Before(st *Step) []string {
	seen := f.before(st)
	var out []string
	for i := range f.Steps {
		if seen[f.Steps[i].Name] {
			out = append(out, f.Steps[i].Name)
		}
	}
	return out
}

// Reads names the earlier steps on whose ends it depends what st does, in the
// order of the flow. A condition that names steps may read all that st needs.
func (f *Flow) Reads(st *Step) []string {
	read := map[string]bool{}
	all := st.When != nil && strings.Contains(st.When.text, "steps")
	for _, t := range append(st.templates(), st.ForEach) {
		for _, p := range t.Paths() {
			if p.Root == "steps" {
				read[p.Member()] = true
			}
		}
	}
	return slices.DeleteFunc(f.Before(st), func(name string) bool { return !all && !read[name] })
}
