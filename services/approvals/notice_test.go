package approvals

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// What may have been taken is repeated only where a repeat is known as one, a wish
// is honoured up to an hour, and after a day it is over.
func TestConclude(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		d       Delivery
		repeats bool
		n       int
		age     time.Duration
		want    Result
	}{
		"taken":                          {d: Delivery{Verdict: Taken}, n: 1, want: Result{State: NoticeDelivered}},
		"refused":                        {d: Delivery{Verdict: Refused}, repeats: true, n: 1, want: Result{State: NoticeFailed}},
		"the first time":                 {n: 1, want: Result{NoticeDue, 5 * time.Second}},
		"the third time":                 {n: 3, want: Result{NoticeDue, 2 * time.Minute}},
		"many times":                     {n: 90, want: Result{NoticeDue, time.Hour}},
		"a wish":                         {d: Delivery{RetryAfter: time.Minute}, n: 1, want: Result{NoticeDue, time.Minute}},
		"a wish under the own wait":      {d: Delivery{RetryAfter: time.Second}, n: 1, want: Result{NoticeDue, 5 * time.Second}},
		"a wish for a year":              {d: Delivery{RetryAfter: 9000 * time.Hour}, n: 1, want: Result{NoticeDue, time.Hour}},
		"uncertain":                      {d: Delivery{Verdict: Uncertain}, n: 1, want: Result{State: NoticeUnknown}},
		"uncertain where it is known":    {d: Delivery{Verdict: Uncertain}, repeats: true, n: 1, want: Result{NoticeDue, 5 * time.Second}},
		"a day later":                    {n: 30, age: 23*time.Hour + 30*time.Minute, want: Result{State: NoticeFailed}},
		"taken a day later":              {d: Delivery{Verdict: Taken}, n: 30, age: 40 * time.Hour, want: Result{State: NoticeDelivered}},
		"uncertain and known, day later": {d: Delivery{Verdict: Uncertain}, repeats: true, n: 30, age: 24 * time.Hour, want: Result{State: NoticeFailed}},
	} {
		if diff := cmp.Diff(tc.want, Conclude(tc.d, tc.repeats, tc.n, tc.age)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

func TestTell(t *testing.T) {
	t.Parallel()
	run := events.RunID("019ac7e2-3b40-7c11-9d6e-5f2a8c417b03")
	of := func(reason string) events.Notice {
		return events.Notice{NoticeID: "n", Namespace: "default", Channel: "ops", Reason: reason, RunID: run, Kind: "agent", Name: "pricing", At: time.Date(2026, 11, 29, 7, 0, 0, 0, time.UTC)}
	}
	pool := of(events.NoticeBudget)
	pool.RunID, pool.Kind, pool.Name = "", "", ""
	pool.Alert = &events.BudgetAlert{Pool: "night", Window: "2026-11-28", Percent: 80, Limit: 2_500_000, Used: 2_100_000, Unit: "micro_usd"}
	own := of(events.NoticeBudget)
	own.Alert = &events.BudgetAlert{Pool: "run:tokens", Window: string(run), RunID: run, Percent: 100, Limit: 500, Used: 500, Unit: "tokens"}
	expired := of(events.NoticeApprovalExpired)
	expired.Tool = "refund"
	for _, tc := range []struct {
		n     events.Notice
		want  string
		facts string
	}{
		{of(events.NoticeFailed), "Agent pricing: a run failed", "run: " + string(run)},
		{of(events.NoticeCompleted), "Agent pricing has completed a run", ""},
		{of(events.NoticeNeedsAttention), "Agent pricing: a run needs attention", ""},
		{of(events.NoticeExpired), "Agent pricing: the time of a run was over", ""},
		{expired, "Agent pricing: nobody answered in time about refund", ""},
		{pool, "Budget night: 80 % are used", "used: $2.1 of $2.5"},
		{own, "Agent pricing: 100 % of a run's tokens are used", "used: 500 tokens of 500 tokens"},
		{of("of_a_newer_release"), "Agent pricing: of_a_newer_release", ""},
	} {
		m := Tell(tc.n)
		var facts []string
		for _, f := range m.Facts {
			facts = append(facts, f.Name+": "+f.Value)
		}
		if m.Title != tc.want || !strings.Contains(strings.Join(facts, "\n"), tc.facts) {
			t.Errorf("%s: %q %q, want %q and %q", tc.n.Reason, m.Title, facts, tc.want, tc.facts)
		}
	}
	// What comes from outside is one bounded line in a title, and has neither
	// control characters nor a second direction of writing.
	hostile := of(events.NoticeFailed)
	hostile.Name = "x\r\nBcc: all@example.com\u202eevil" + strings.Repeat("y", 500)
	hostile.Error = &events.Problem{Code: "c", Message: "a\x1b[31m\nb\x00" + strings.Repeat("z", 9000)}
	m := Tell(hostile)
	if strings.ContainsAny(m.Title, "\r\n\u202e") || len([]rune(m.Title)) > maxTitle+1 {
		t.Errorf("title %q", m.Title)
	}
	if v := m.Facts[0].Value; strings.ContainsAny(v, "\x1b\x00") || !strings.Contains(v, "\nb") || len([]rune(v)) > maxShown+1 {
		t.Errorf("value %.40q of %d characters", v, len([]rune(v)))
	}
}
