package spec

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Escalation says what follows while nobody decides, step by step.
type Escalation []EscalationStep

// EscalationStep lets more people decide, tells another channel, or both.
type EscalationStep struct {
	After    Duration  `json:"after"`              // it was asked
	Deciders *Deciders `json:"deciders,omitempty"` // who may decide as well from then on
	Channel  string    `json:"channel,omitempty"`  // name of a Channel
}

// Bounds of an Escalation.
const (
	maxSteps = 5
	minStep  = time.Minute
	maxStep  = 90 * 24 * time.Hour
)

// check wants narrow to say whether the rule names who decides before.
func (x Escalation) check(d *decoder, s spot, narrow bool) {
	d.require(s, len(x) > 0, "at least one step, like {after: 2h, deciders: {groups: [leads]}, channel: ops}")
	if len(x) > maxSteps {
		d.fail(s, "has %d items; at most %d are allowed", len(x), maxSteps)
		return
	}
	for i, step := range x {
		at := s.at(i)
		switch {
		case d.failed[at.at("after").path]:
		case step.After == 0:
			d.require(at.at("after"), false, "how long after it was asked, like 2h")
		case step.After.Std() < minStep || step.After.Std() > maxStep:
			d.fail(at.at("after"), "%s is outside %s to %s", step.After, Duration(minStep), Duration(maxStep))
		case i > 0 && step.After <= x[i-1].After:
			d.fail(at.at("after"), "%s is not after %s; write the steps in ascending order", step.After, x[i-1].After)
		}
		if step.Channel != "" {
			d.name(at.at("channel"), step.Channel)
		}
		switch {
		case step.Deciders != nil:
			step.Deciders.check(d, at.at("deciders"), "leave it out when nobody more may decide")
			if !narrow {
				d.fail(at.at("deciders"), "every approver may decide from the beginning; say who decides first with deciders of the rule, or leave this out")
			}
		case step.Channel == "":
			d.require(at, false, "who may decide as well from then on, with deciders, or which channel is told, with channel")
		}
	}
}

// before checks that each step comes while a request still waits.
func (x Escalation) before(d *decoder, s spot, expiry Duration) {
	for i, step := range x {
		if at := s.at(i, "after"); step.After >= expiry && !d.failed[at.path] {
			d.fail(at, "%s is not before the request expires, after %s", step.After, expiry)
		}
	}
}

func (x Escalation) references(field string) []Reference {
	var out []Reference
	for i, step := range x {
		out = append(out, channelReference(fmt.Sprintf("%s.escalate[%d].channel", field, i), step.Channel)...)
	}
	return out
}

func (a *Approval) references(field string) []Reference {
	if a.Rule == nil {
		return nil
	}
	return a.Rule.Escalate.references(field)
}

// events are the steps of a rule whose own deciders are condition of of what holds.
func (x Escalation) events(of int) []events.Escalation {
	var out []events.Escalation
	for _, step := range x {
		e := events.Escalation{AfterMs: step.After.Std().Milliseconds(), Channel: step.Channel}
		if step.Deciders != nil {
			e.Deciders, e.Of = new(step.Deciders.event()), max(of, 0)
		}
		out = append(out, e)
	}
	return out
}

func (p *Deciders) event() events.Deciders {
	return events.Deciders{Users: slices.Clone(p.Users), Groups: slices.Clone(p.Groups), Roles: slices.Clone(p.Roles)}
}
