package runner_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

func TestRetention_Rules(t *testing.T) {
	for text, want := range map[string]string{
		"90d": "", "2160h": "", "failed=365d": "", "agent/triage=30d": "", "flow/nightly/completed=7d": "", "team-a:agent/triage=keep": "", "team-a:90d": "is not a number of days",
		"team-a:=90d": "", "30m": "less than 1h", "soon": "is not an age", "running=90d": "is not how a run ends", "agent=90d": "want agent/NAME", "agent/=90d": "want agent/NAME",
		"agent/a/failed/b=90d": "want [NAMESPACE:]", ":agent/a=90d": "namespace before the colon is empty", "-1h": "less than 1h", "xd": "is not a number of days", "agent/a/keep=90d": "is not how a run ends", "": "is not an age",
	} {
		_, err := runner.ParseRetention([]string{text})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := runner.ParseRetention([]string{"90d", "80d"}); err == nil || !strings.Contains(err.Error(), "two rules") {
		t.Errorf("two rules for the same runs: %v", err)
	}
}

// The most specific rule counts, and what no rule names is kept.
func TestRetention_TheMostSpecificCounts(t *testing.T) {
	rules := []string{"90d", "failed=365d", "agent/triage=30d", "agent/triage/failed=keep", "team-a:agent/triage=2d", "team-b:=3d"}
	list, err := runner.ParseRetention(rules)
	if err != nil {
		t.Fatal(err)
	}
	day := 24 * time.Hour
	for run, want := range map[[4]string]time.Duration{
		{"default", "agent", "other", "completed"}: 90 * day, {"default", "agent", "other", "failed"}: 365 * day,
		{"default", "agent", "triage", "completed"}: 30 * day, {"default", "agent", "triage", "failed"}: 0, {"default", "flow", "triage", "completed"}: 90 * day,
		{"team-a", "agent", "triage", "completed"}: 2 * day, {"team-b", "agent", "other", "cancelled"}: 3 * day, {"team-b", "agent", "other", "failed"}: 365 * day,
	} {
		if got := list.Of(runner.EndedRun{Namespace: run[0], Ref: events.Ref{Kind: run[1], Name: run[2]}, Status: run[3]}); got != want {
			t.Errorf("%v is kept for %s, want %s", run, got, want)
		}
	}
}
