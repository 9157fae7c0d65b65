package approvals

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// AuditEscalated is the audit's row of a step of an escalation.
const AuditEscalated = "escalated"

// maxSteps is how many steps a request may have: as many as a tool and an agent may
// say together.
const maxSteps = 10

// validSteps reports whether the steps of a rule are in order and about its deciders.
func validSteps(rule *events.DecisionRule) bool {
	before := int64(1)
	for _, e := range rule.Escalate {
		if e.AfterMs < before || e.AfterMs > maxPeriod.Milliseconds() || e.Deciders != nil && (e.Of < 0 || e.Of >= len(rule.Deciders)) || strings.ContainsRune(e.Channel, 0) {
			return false
		}
		before = e.AfterMs
	}
	return len(rule.Escalate) <= maxSteps
}

// come are the steps whose time has come.
func (r Request) come() []events.Escalation {
	if r.Rule == nil {
		return nil
	}
	return r.Rule.Escalate[:min(max(r.Escalated, 0), len(r.Rule.Escalate))]
}

// meets reports whether p is one of condition i of r's rule: from the beginning, or
// by a step whose time has come.
func (r Request) meets(i int, p Person) bool {
	return among(r.Rule.Deciders[i], p) || slices.ContainsFunc(r.come(), func(e events.Escalation) bool {
		return e.Deciders != nil && e.Of == i && among(*e.Deciders, p)
	})
}

// AskedIn reports whether r is asked in the channel: from the beginning, or by a step
// whose time has come.
func (r Request) AskedIn(channel string) bool {
	return channel != "" && (r.Channel == channel || slices.ContainsFunc(r.come(), func(e events.Escalation) bool { return e.Channel == channel }))
}

// Escalate takes every step whose time has come.
func (s *Service) Escalate(ctx context.Context) error {
	for {
		n, err := s.decider.Escalate(ctx, sweepBatch)
		if err != nil {
			return fmt.Errorf("escalate approvals: %w", err)
		}
		if n > 0 {
			if err := failpoint.Hit("approvals.escalated", ""); err != nil {
				return err
			}
			s.notifier.Kick()
		}
		if n < sweepBatch {
			return nil
		}
	}
}

// escalates reports whether n, about a request, is of a step.
func escalates(n Notice) bool {
	return strings.HasPrefix(string(n.NoticeID), string(n.ApprovalID)+"-escalate-")
}

// Steps are the times of the steps that follow a, in milliseconds after it, when it is
// asked at now.
func (a Ask) Steps(now time.Time) []int64 {
	out := []int64{}
	if a.Rule != nil {
		for _, e := range a.Rule.Escalate {
			out = append(out, until(a.Rule, now, time.Duration(e.AfterMs)*time.Millisecond).Milliseconds())
		}
	}
	return out
}
