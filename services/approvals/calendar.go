package approvals

import (
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// until is how long it takes from a moment on until d has passed by the rule's
// calendar; without one that is d.
func until(rule *events.DecisionRule, from time.Time, d time.Duration) time.Duration {
	if rule == nil || rule.Calendar == nil {
		return d
	}
	clock, err := spec.NewClock(rule.Calendar)
	if err != nil {
		return d // an ask with such a calendar was refused
	}
	return min(clock.Add(from, d).Sub(from), maxPeriod)
}

// Counts reports whether a's times depend on when it is asked.
func (a Ask) Counts() bool { return a.Rule != nil && a.Rule.Calendar != nil }

// Lasts is how long a waits for people when it is asked at now.
func (a Ask) Lasts(now time.Time) time.Duration { return until(a.Rule, now, a.ExpiresAfter) }

// RemindersAnew are the times from until to the reminders of r that are left, and
// between those, in milliseconds; nil where the rest of the old ones holds.
func (r Request) RemindersAnew(from time.Time) []int64 {
	if r.Rule == nil || r.Rule.Calendar == nil || r.Reminded >= len(r.Rule.RemindMs) {
		return nil
	}
	sent := int64(0)
	if r.Reminded > 0 {
		sent = r.Rule.RemindMs[r.Reminded-1]
	}
	var gaps []int64
	before := int64(0)
	for _, ms := range r.Rule.RemindMs[r.Reminded:] {
		at := until(r.Rule, from, time.Duration(ms-sent)*time.Millisecond).Milliseconds()
		gaps, before = append(gaps, at-before), at
	}
	return gaps
}
