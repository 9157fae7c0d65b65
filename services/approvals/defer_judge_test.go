package approvals

import (
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

func TestJudgeDefer(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 29, 0, 30, 0, 0, time.UTC)
	open := Request{State: StatePending, ExpiresAt: now.Add(time.Hour)}
	kept := Request{State: StatePending, ExpiresAt: now.Add(time.Hour), Rule: &events.DecisionRule{AtExpiry: events.AtExpiryKeep}}
	state := func(s string) Request { return Request{State: s, ExpiresAt: now.Add(time.Hour)} }
	for name, tc := range map[string]struct {
		r       Request
		d       Deferral
		want    time.Duration // from now; 0: none
		outcome Outcome
	}{
		"for a while":                      {open, Deferral{For: 10 * time.Minute}, 10 * time.Minute, Decided},
		"until a time":                     {open, Deferral{Until: now.Add(59 * time.Minute)}, 59 * time.Minute, Decided},
		"shown again":                      {open, Deferral{}, 0, Decided},
		"to the moment of the expiry":      {open, Deferral{For: time.Hour}, 0, Unfit},
		"beyond the expiry":                {open, Deferral{Until: now.Add(2 * time.Hour)}, 0, Unfit},
		"into the past":                    {open, Deferral{Until: now.Add(-1)}, 0, Unfit},
		"expired, swept or not":            {Request{State: StatePending, ExpiresAt: now}, Deferral{For: 1}, 0, TooLate},
		"after the expiry":                 {state(events.Expired), Deferral{For: 1}, 0, TooLate},
		"after it was withdrawn":           {state(events.Withdrawn), Deferral{For: 1}, 0, Gone},
		"after somebody decided":           {state(events.Approve), Deferral{For: 1}, 0, Lost},
		"by whom the rule does not name":   {Request{State: StatePending, ExpiresAt: now.Add(time.Hour), Rule: &events.DecisionRule{Deciders: []events.Deciders{{Users: []string{"ann"}}}}}, Deferral{By: "ben", For: 1}, 0, NotAllowed},
		"by whom the rule names":           {Request{State: StatePending, ExpiresAt: now.Add(time.Hour), Rule: &events.DecisionRule{Deciders: []events.Deciders{{Users: []string{"ann"}}}}}, Deferral{By: "ann", For: 1}, 1, Decided},
		"what is kept, beyond the expiry":  {kept, Deferral{For: 2 * time.Hour}, 2 * time.Hour, Decided},
		"what is overdue":                  {Request{State: StatePending, ExpiresAt: now.Add(-1), Rule: kept.Rule}, Deferral{For: 1}, 1, Decided},
		"what is kept, for ever":           {kept, Deferral{Until: now.AddDate(11, 0, 0)}, 0, Unfit},
		"shown again after it was decided": {state(events.Reject), Deferral{}, 0, Lost},
	} {
		until, outcome := JudgeDefer(tc.r, tc.d, now)
		if want := now.Add(tc.want); outcome != tc.outcome || (tc.want == 0) != until.IsZero() || tc.want != 0 && !until.Equal(want) {
			t.Errorf("%s: until %s, %s", name, until, outcome)
		}
	}
}
