package console

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestExamine(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 5, 7, 0, 0, 0, time.UTC)
	healthy := System{At: now, Workers: []Worker{{Service: "runner"}, {Service: "tools"}, {Service: "tools", Age: time.Hour}}}
	with := func(change func(*System)) System {
		s := healthy
		change(&s)
		return s
	}
	for name, tc := range map[string]struct {
		system System
		in     Checkup
		want   []string // "severity code: part of the sentence or of what is next"
	}{
		"all is well": {system: healthy},
		"nobody works": {system: System{At: now, Workers: []Worker{{Service: "runner", Age: time.Minute}}}, want: []string{
			"problem no_worker: no process of runner is alive", "problem no_worker: holdfast serve tools"}},
		"parked runs are told apart, with the command that lets them go on": {system: healthy, in: Checkup{Parked: []Tally{{Code: "auth", Count: 500}, {Code: "damaged", Count: 1}}}, want: []string{
			`problem parked_runs: 500 runs need attention (auth)`, `problem parked_runs: error.code=="damaged"`}},
		"what is in doubt, held by the dead or written by a newer release": {system: healthy, in: Checkup{Doubts: Tally{Count: 2}, Orphans: Tally{Count: 3}, NewerRuns: Tally{Count: 4}}, want: []string{
			"problem doubts: 2 effects are in doubt: nobody knows", "problem newer_runs: 4 runs", "problem orphans: 3 model calls"}},
		"what has not arrived": {system: healthy, in: Checkup{Untaken: Tally{Count: 1}, Unasked: Tally{Count: 3}, Unlanded: Tally{Count: 2}, Rejected: []Tally{{Code: "runner decode", Count: 7}}}, want: []string{
			"warning untaken_starts: 1 start was", "warning unasked_calls: 3 runs wait for a runner", "warning unlanded_commands: 2 commands", "warning rejected_messages: runner rejected 7 messages within a day (decode)"}},
		"notices that are not known to have arrived": {system: healthy, in: Checkup{Notices: []Tally{{Code: "failed", Count: 2}, {Code: "unknown", Count: 3}}}, want: []string{
			"warning failed_notices: 2 notices of the last week", "warning unknown_notices: holdfast notices resend NOTICE --may-double"}},
		"pauses, by an operator and by a budget": {system: healthy, in: Checkup{Paused: []Tally{{Count: 1}, {Code: "pool:night", Count: 2}}}, want: []string{
			"warning paused_runs: 1 run is paused by an operator", "warning paused_runs: pool:night is used up"}},
		"a stop, a backlog, and no NATS": {system: with(func(s *System) {
			s.Stops, s.NoLag = []Stop{{Scope: "all", By: "maria", Note: "wrong prices", Since: now}}, "no connection"
			s.Lags = []Lag{{Stream: "RUNS", Durable: "runner", Pending: 999}, {Stream: "TOOLS", Durable: "tools-default", Pending: 1000}}
		}), want: []string{"warning stop_in_force: writes of all are stopped by maria: wrong prices", "warning streams_unread: no connection", "warning backlog: tools-default of TOOLS is 1000"}},
		"clocks that are apart, of who is alive": {system: with(func(s *System) {
			s.Workers = []Worker{{Service: "runner", Name: "runner-a", Skew: 10 * time.Minute}, {Service: "tools", Name: "tools-a", Skew: -6 * time.Second},
				{Service: "tools", Name: "tools-b", Skew: 4 * time.Second}, {Service: "tools", Name: "tools-c", Age: time.Hour, Skew: time.Hour}}
		}), want: []string{"warning clock_skew: runner-a is 10m0s ahead of the database's", "warning clock_skew: tools-a is 6s behind the database's"}},
		"people have a day":             {system: healthy, in: Checkup{Waiting: Tally{Count: 3, Since: now.Add(-23 * time.Hour)}}},
		"a question waits for too long": {system: healthy, in: Checkup{Waiting: Tally{Count: 3, Since: now.Add(-25 * time.Hour)}}, want: []string{"warning waiting_for_people: 3 questions"}},
		"problems come first": {system: healthy, in: Checkup{Paused: []Tally{{Count: 1}}, Doubts: Tally{Count: 1}, Untaken: Tally{Count: 1}}, want: []string{
			"problem doubts: 1", "warning untaken_starts: 1", "warning paused_runs: 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got, want []string
			for i, f := range Examine(tc.system, tc.in) {
				line := f.Severity + " " + f.Code
				got = append(got, line)
				if i < len(tc.want) {
					_, part, _ := strings.Cut(tc.want[i], ": ")
					if !strings.Contains(f.What+" "+f.Next, part) {
						t.Errorf("%s: %q and %q do not say %q", line, f.What, f.Next, part)
					}
				}
				if f.Next == "" || f.What == "" {
					t.Errorf("%s says nothing about what to do", line)
				}
			}
			for _, w := range tc.want {
				line, _, _ := strings.Cut(w, ": ")
				want = append(want, line)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}
