package spec

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Approval modes.
const (
	ApprovalNever  = "never"
	ApprovalAlways = "always"
	ApprovalWhen   = "when"
)

// Policies for a call of which it is not known whether it happened.
const (
	PolicyAsk   = "ask"   // a person says
	PolicyRetry = "retry" // repeat: the other side honours the key
	PolicyFail  = "fail"  // leave it unknown and tell the model
	PolicyProbe = "probe" // a declared lookup says
)

// Approval says when a person must agree before a call runs, and who. In YAML it
// is never, always or {when: CEL, deciders, requester, comment, quorum, remind,
// escalate, atExpiry, calendar, form}.
type Approval struct {
	Mode string // ApprovalNever, ApprovalAlways or ApprovalWhen
	// When is over GateVariables; set with ApprovalWhen.
	When *Condition
	// Rule says who may decide; nil: every approver.
	Rule *Rule
}

// approvalForm is the long form in YAML; without When it always asks.
type approvalForm struct {
	When      *Condition `json:"when,omitempty"`      // CEL over args, run, budget, time and tool; absent: always
	Deciders  *Deciders  `json:"deciders,omitempty"`  // who may decide; absent: every approver
	Requester string     `json:"requester,omitempty"` // denied or allowed: whether who started the run may decide
	Comment   string     `json:"comment,omitempty"`   // optional or required
	Quorum    int64      `json:"quorum,omitempty"`    // how many must say yes
	Remind    Reminders  `json:"remind,omitempty"`    // when the channel is told again
	Escalate  Escalation `json:"escalate,omitempty"`  // who may decide as well when nobody has
	AtExpiry  string     `json:"atExpiry,omitempty"`  // deny, keep or end: what follows when nobody decided
	Calendar  *Calendar  `json:"calendar,omitempty"`  // the hours that count
	Form      Form       `json:"form,omitempty"`      // arguments that the person fills in
}

// MarshalJSON writes the YAML form.
func (a Approval) MarshalJSON() ([]byte, error) {
	if a.When == nil && a.Rule == nil {
		return quote(a.Mode), nil
	}
	f := approvalForm{When: a.When}
	if r := a.Rule; r != nil {
		if r.Comment == CommentRequired { // what is left out reads as it always did
			f.Comment = r.Comment
		}
		f.Deciders, f.Requester, f.Quorum, f.Remind, f.AtExpiry = r.Deciders, r.Requester, r.Quorum, r.Remind, r.AtExpiry
		f.Escalate, f.Calendar, f.Form = r.Escalate, r.Calendar, r.Form
	}
	return events.Marshal(f)
}

func (a *Approval) readNode(d *decoder, s spot) {
	switch s.n.kind {
	case textNode:
		if d.oneOf(s, s.n.text, ApprovalNever, ApprovalAlways) {
			a.Mode = s.n.text
		} else {
			a.Mode = ApprovalAlways
		}
	case mapNode:
		var f approvalForm
		d.into(s, reflectOf(&f))
		a.Mode, a.When = ApprovalAlways, f.When
		if f.When != nil {
			a.Mode = ApprovalWhen
		}
		if len(s.n.pairs) > 1 || len(s.n.pairs) == 1 && f.When == nil {
			a.Rule = &Rule{Deciders: f.Deciders, Requester: f.Requester, Comment: f.Comment, Quorum: f.Quorum, Remind: f.Remind, AtExpiry: f.AtExpiry, Escalate: f.Escalate, Calendar: f.Calendar, Form: f.Form}
			a.Rule.fill()
		}
		w := s.n.get("when")
		d.require(s.at("when"), len(s.n.pairs) > 0 && (w == nil || w.kind != nullNode), "a CEL expression over "+strings.Join(GateVariables, ", ")+"; without it say who may decide, with deciders")
	default:
		d.fail(s, "expected never, always or {when: \"CEL expression\"}, found %s", describe(s.n))
		a.Mode = ApprovalAlways
	}
}

func (a *Approval) check(d *decoder, s spot) {
	if a.When != nil {
		d.compile(s.at("when"), a.When, GateVariables...)
	}
	if a.Rule != nil {
		a.Rule.check(d, s)
	}
}

// String is the policy as a person reads it and as BindDigest takes it.
func (a Approval) String() string {
	text := a.Mode
	if a.Mode == ApprovalWhen {
		text = "when " + a.When.String()
	}
	if a.Rule != nil {
		text += "; rule " + a.Rule.String()
	}
	return text
}

// InDoubt chooses a policy by the arguments: the first case whose condition
// holds, else Default. In YAML it is ask, retry or fail, or {default, cases,
// probe}.
type InDoubt struct {
	Default string      `json:"default"`         // PolicyProbe when there is a Probe and nothing else is said
	Cases   []DoubtCase `json:"cases,omitempty"` // policies for some arguments, the first that fits
	Probe   *Probe      `json:"probe,omitempty"` // what PolicyProbe does; writes only
}

// DoubtCase is a policy for some arguments.
type DoubtCase struct {
	When   *Condition `json:"when"`   // over args
	Policy string     `json:"policy"` // ask, retry, fail or probe
}

// MarshalJSON writes the short form when there are neither cases nor a probe.
func (x InDoubt) MarshalJSON() ([]byte, error) {
	if len(x.Cases) == 0 && x.Probe == nil {
		return quote(x.Default), nil
	}
	type long InDoubt
	return json.Marshal(long(x))
}

func (x *InDoubt) readNode(d *decoder, s spot) {
	switch s.n.kind {
	case textNode:
		x.Default = s.n.text
	case mapNode:
		type long InDoubt
		var p long
		d.into(s, reflectOf(&p))
		*x = InDoubt(p)
		if x.Default == "" && x.Probe != nil {
			x.Default = PolicyProbe
		}
	default:
		d.fail(s, "expected ask, retry, fail or {default, cases, probe}, found %s", describe(s.n))
		x.Default = PolicyAsk
	}
}

func (x *InDoubt) check(d *decoder, s spot) {
	policies := []string{PolicyAsk, PolicyRetry, PolicyFail}
	if x.Probe != nil {
		policies = append(policies, PolicyProbe)
		x.Probe.check(d, s.at("probe"))
	}
	at := s
	if s.n.kind == mapNode && s.n.get("default") != nil {
		at = s.at("default")
	}
	if !d.failed[s.path] {
		d.oneOf(at, x.Default, policies...)
	}
	if len(x.Cases) > 50 {
		d.fail(s.at("cases"), "has %d items; at most 50 are allowed", len(x.Cases))
		return
	}
	for i := range x.Cases {
		c, at := &x.Cases[i], s.at("cases", i)
		d.require(at.at("when"), c.When != nil, "a CEL expression over args")
		d.compile(at.at("when"), c.When, "args")
		if d.require(at.at("policy"), c.Policy != "", "ask, retry or fail"); c.Policy != "" {
			d.oneOf(at.at("policy"), c.Policy, policies...)
		}
	}
}

// String is the policy as text.
func (x InDoubt) String() string {
	var b strings.Builder
	for _, c := range x.Cases {
		fmt.Fprintf(&b, "%s when %s; ", c.Policy, c.When)
	}
	b.WriteString(x.Default)
	if x.Probe != nil {
		fmt.Fprintf(&b, " (probe, then %s)", x.Probe.Then)
	}
	return b.String()
}

// RunFacts is what approval conditions read as run. All of it is known when
// the model's answer is decided.
type RunFacts struct {
	ID        string            `json:"id"`
	Namespace string            `json:"namespace"`
	Agent     string            `json:"agent"`
	Labels    map[string]string `json:"labels"`
	Input     json.RawMessage   `json:"input"`
	Trigger   events.Trigger    `json:"trigger"`
	Principal string            `json:"principal"`
	// Used so far, the answer that asks included.
	ModelCalls int64 `json:"model_calls"`
	ToolCalls  int64 `json:"tool_calls"`
	Tokens     int64 `json:"tokens"`
	Cost       int64 `json:"-"` // in micro-dollars; see AgentBudget.facts
}

// JSON is the value for run.
func (r RunFacts) JSON() (json.RawMessage, error) {
	if r.Labels == nil {
		r.Labels = map[string]string{}
	}
	if r.Input == nil {
		r.Input = json.RawMessage("null")
	}
	return json.Marshal(r)
}

// DoubtPolicy is what follows when it is not known whether a call with these
// arguments happened. A condition that cannot be decided asks.
func (t *Tool) DoubtPolicy(args json.RawMessage) string {
	for _, c := range t.InDoubt.Cases {
		holds, err := c.When.Eval(map[string]json.RawMessage{"args": args})
		if err != nil {
			return PolicyAsk
		}
		if holds {
			return c.Policy
		}
	}
	if t.InDoubt.Default == "" {
		return PolicyAsk
	}
	return t.InDoubt.Default
}

// PoliciesDigest covers the approval and in-doubt policies of tools, in the
// given order.
func PoliciesDigest(tools []*Tool) events.Digest {
	var b strings.Builder
	b.WriteString("holdfast/policies/v1\n")
	for _, t := range tools {
		fmt.Fprintf(&b, "%q approval %q expires %s valid %s in doubt %q\n",
			t.Name, t.Approval, t.ApprovalExpiresAfter, t.ApprovalValidFor, t.InDoubt)
		if t.InDoubt.Probe != nil {
			probe, _ := json.Marshal(t.InDoubt.Probe) // what was parsed can be written
			fmt.Fprintf(&b, "probe %s\n", probe)
		}
	}
	return events.DigestOf([]byte(b.String()))
}
