package demo

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/lab"
)

// goodNight is a night in which everything held.
func goodNight() facts {
	at := time.Date(2026, 11, 29, 2, 0, 0, 0, time.UTC)
	f := facts{
		Seed: 1, Scripted: true, Model: "scripted", Took: 30 * time.Second, Expected: 32, ToolsKilled: 2, Approved: 29,
		Tally:     lab.Tally{Arrivals: 30, Effects: 29, Keys: 29, Replayed: 1, PerKey: []lab.KeyTally{{Business: "n/shop-20/p", Effects: 1}}},
		Doubts:    []doubtFact{{ApprovalID: "a", Business: "n/shop-20/p", Decision: "happened", By: "maria"}},
		Focus:     focusFact{RunID: "r17", SeqAtKill: 4, FirstSeq: 5, WorkerBefore: "w1", WorkerAfter: "w2", Requests: 4, Answers: 3, InFlight: 1},
		ManyPages: manyPagesFact{Asked: 14, Fetched: 12, BudgetResults: 2},
		Budget:    budgetFact{Pool: "night", Ceiling: 400, Raised: 800, Used: 450, Paused: 3, Raises: 1, Alerts: 1, Copies: 1, Rows: 1},
		Approvals: approvalsFact{Requests: 29, Posts: 58, Pairs: 15, Accepted: 58, Decided: 29, Heard: 29},
		Journal:   journalFact{Rows: 300, Runs: 32, Requests: 97, Answers: 91, InFlight: 6},
	}
	for _, d := range []struct{ role, signal, exit string }{
		{"runner", "SIGKILL", "signal: killed"}, {"tools", "SIGKILL", "signal: killed"}, {"trigger", "SIGKILL", "signal: killed"},
		{"approvals", "SIGKILL", "signal: killed"}, {"nats", "SIGKILL", "signal: killed"}, {"console", "SIGTERM", "exit status 0"},
	} {
		f.Deaths = append(f.Deaths, lab.Death{Process: d.role + "-1", Role: d.role, Signal: d.signal, Exit: d.exit, Wanted: true, At: at})
	}
	for range 32 {
		f.Runs = append(f.Runs, runFact{Status: "completed"})
	}
	k := runnerKill{Process: "runner-1", Worker: "w1", At: at, Alive: 1}
	for i := range 6 {
		k.Claims = append(k.Claims, claimFact{Seq: 4, FirstSeq: 5, FirstAt: at.Add(time.Duration(2000+i) * time.Millisecond), FirstBy: "w2", Completed: true})
	}
	f.Kills = []runnerKill{k}
	return f
}

func failures(r report) string {
	var names []string
	for _, m := range r.Measures {
		if !m.OK {
			names = append(names, m.Name)
		}
	}
	for _, c := range r.Checks {
		if !c.OK {
			names = append(names, c.Name+": want "+c.Want+", got "+c.Got)
		}
	}
	return strings.Join(names, "\n")
}

func TestJudge_GoodNight(t *testing.T) {
	t.Parallel()
	r := judge(goodNight())
	if !r.OK {
		t.Fatalf("a good night failed:\n%s", failures(r))
	}
	if r.Resume.N != 6 || r.Resume.P50Sec != 2.002 || r.Resume.P99Sec != 2.005 {
		t.Errorf("resume %+v", r.Resume)
	}
	if r.InDoubt != 1 || r.ByPerson != 1 || len(r.Measures) != 4 {
		t.Errorf("in doubt %d, by a person %d, %d measures", r.InDoubt, r.ByPerson, len(r.Measures))
	}
}

// TestJudge_Finds spoils the good night in one way each: the verdict must turn
// and name the reason.
func TestJudge_Finds(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		spoil func(*facts)
		want  string
	}{
		"a duplicate": {func(f *facts) {
			f.Tally.Effects, f.Tally.Duplicates = 30, 1
			f.Tally.Doubled = []lab.KeyTally{{Business: "n/shop-20/p", Effects: 2}}
		}, "n/shop-20/p took effect 2 times"},
		"no effects at all":                  {func(f *facts) { f.Tally = lab.Tally{} }, "duplicate-action rate"},
		"a price that was not changed":       {func(f *facts) { f.Tally.Keys = 28 }, "prices changed"},
		"nobody approved":                    {func(f *facts) { f.Approved = 0; f.Tally.Keys = 0 }, "prices changed"},
		"a request without a key":            {func(f *facts) { f.Tally.Keyless = 1 }, "without an idempotency key"},
		"no kill":                            {func(f *facts) { f.Kills = nil }, "resumption success"},
		"a kill that hit nothing":            {func(f *facts) { f.Kills[0].Claims = nil }, "time to resume"},
		"too few hit":                        {func(f *facts) { f.Kills[0].Claims = f.Kills[0].Claims[:4] }, "had claimed: want at least 5, got 4"},
		"a run that never resumed":           {func(f *facts) { f.Kills[0].Claims[0].FirstSeq = 0 }, "resumption success"},
		"a run that skipped a number":        {func(f *facts) { f.Kills[0].Claims[0].FirstSeq = 6 }, "resumption success"},
		"a resumed run that did not end":     {func(f *facts) { f.Kills[0].Claims[0].Completed = false }, "resumption success"},
		"a slow resume":                      {func(f *facts) { f.Kills[0].Claims[0].FirstAt = f.Kills[0].At.Add(6 * time.Second) }, "time to resume p99"},
		"nobody else alive":                  {func(f *facts) { f.Kills[0].Alive = 0 }, "other runners alive"},
		"a run that failed":                  {func(f *facts) { f.Runs[3].Status = "failed" }, "run completion rate"},
		"a run too few":                      {func(f *facts) { f.Runs = f.Runs[:31] }, "runs of the night"},
		"a run too many":                     {func(f *facts) { f.Runs = append(f.Runs, runFact{Status: "completed"}) }, "runs of the night"},
		"no runs":                            {func(f *facts) { f.Runs, f.Expected = nil, 0 }, "run completion rate"},
		"no doubt":                           {func(f *facts) { f.Doubts = nil }, "effects in doubt: want 1, got 0"},
		"two doubts":                         {func(f *facts) { f.Doubts = append(f.Doubts, f.Doubts[0]) }, "effects in doubt: want 1, got 2"},
		"a doubt that nobody settled":        {func(f *facts) { f.Doubts[0].By = "" }, "doubts resolved by a person"},
		"a wrong answer to the doubt":        {func(f *facts) { f.Doubts[0].Decision = "not_happened" }, "the person's answer"},
		"a process that died by itself":      {func(f *facts) { f.Deaths[0].Wanted = false }, "ended by themselves"},
		"an unclean stop":                    {func(f *facts) { f.Deaths[5].Exit = "exit status 1" }, "clean end of console-1"},
		"no trigger killed":                  {func(f *facts) { f.Deaths[2].Role = "x" }, "kill -9 of trigger"},
		"no NATS killed":                     {func(f *facts) { f.Deaths[4].Signal = "SIGTERM"; f.Deaths[4].Exit = "exit status 0" }, "kill -9 of nats"},
		"no deploy":                          {func(f *facts) { f.Deaths = f.Deaths[:5] }, "SIGTERM of a service"},
		"nothing was repeated":               {func(f *facts) { f.Tally.Replayed = 0 }, "recognised by their key"},
		"the tools kill missed":              {func(f *facts) { f.ToolsKilled = 0 }, "between the other side's commit"},
		"child 17 lost a number":             {func(f *facts) { f.Focus.FirstSeq = 6 }, "child 17: first seq"},
		"child 17 was not hit":               {func(f *facts) { f.Focus = focusFact{} }, "child 17: first seq"},
		"child 17 stayed with its worker":    {func(f *facts) { f.Focus.WorkerAfter = "w1" }, "child 17: another worker"},
		"child 17 asked again":               {func(f *facts) { f.Focus.Requests = 5 }, "child 17: model requests: want 3 answers + 1 in flight at the kill, got 5"},
		"child 17 had no call in flight":     {func(f *facts) { f.Focus.InFlight, f.Focus.Requests = 0, 3 }, "child 17: calls in flight"},
		"another run asked again":            {func(f *facts) { f.Journal.Requests++ }, "model requests of all runs"},
		"13 pages":                           {func(f *facts) { f.ManyPages.Fetched = 13 }, "reached the web: want 12, got 13"},
		"one budget result":                  {func(f *facts) { f.ManyPages.BudgetResults = 1 }, "answered with the budget"},
		"no alert":                           {func(f *facts) { f.Budget.Alerts = 0 }, "alert events"},
		"two alerts":                         {func(f *facts) { f.Budget.Alerts = 2 }, "alert events"},
		"two raises":                         {func(f *facts) { f.Budget.Raises = 2 }, "raises"},
		"nobody paused":                      {func(f *facts) { f.Budget.Paused = 0 }, "runs paused"},
		"the cap was never passed":           {func(f *facts) { f.Budget.Used = 390 }, "tokens used"},
		"the raised cap was passed":          {func(f *facts) { f.Budget.Used = 801 }, "tokens used"},
		"a proposal decided twice":           {func(f *facts) { f.Approvals.Decided = 28 }, "decided exactly once"},
		"a decision heard twice":             {func(f *facts) { f.Approvals.Heard = 28 }, "heard exactly once"},
		"posted once":                        {func(f *facts) { f.Approvals.Posts, f.Approvals.Accepted = 29, 29 }, "decisions posted"},
		"never posted in the same moment":    {func(f *facts) { f.Approvals.Pairs = 0 }, "same moment"},
		"a refused post":                     {func(f *facts) { f.Approvals.Accepted = 57 }, "posts answered 200"},
		"no proposals":                       {func(f *facts) { f.Approvals = approvalsFact{} }, "proposals put before"},
		"a gap in a journal":                 {func(f *facts) { f.Journal.Gaps = 1 }, "gap in their journal"},
		"a fact twice":                       {func(f *facts) { f.Journal.DoubleCauses = 1 }, "recorded twice"},
		"a second night":                     {func(f *facts) { f.Journal.Runs = 64 }, "the night started once"},
		"an empty journal":                   {func(f *facts) { f.Journal.Rows = 0 }, "rows in the journals"},
		"a history that the provider breaks": {func(f *facts) { f.Broken = []string{"x"} }, "rules of the model API"},
		"an incident that did not happen":    {func(f *facts) { f.Incidents = []string{"no nats"} }, "incidents went as planned"},
	}
	for name, tc := range tests {
		f := goodNight()
		tc.spoil(&f)
		r := judge(f)
		if r.OK || !strings.Contains(failures(r), tc.want) {
			t.Errorf("%s: ok %v, failures:\n%s\nwant one with %q", name, r.OK, failures(r), tc.want)
		}
	}
}

func TestJudge_RealModel(t *testing.T) {
	t.Parallel()
	f := goodNight()
	f.Scripted, f.Model = false, "claude"
	f.Focus, f.ManyPages, f.Budget = focusFact{}, manyPagesFact{}, budgetFact{}
	r := judge(f)
	if !r.OK || r.Relaxed == "" {
		t.Errorf("ok %v, relaxed %q, failures:\n%s", r.OK, r.Relaxed, failures(r))
	}
	f.Tally.Duplicates = 1
	if judge(f).OK {
		t.Error("a duplicate was accepted because a real model answered")
	}
}
