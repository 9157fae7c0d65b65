package demo

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-run/holdfast/internal/lab"
)

// resumeLimit is the longest p99 that a resume may take.
const resumeLimit = 5 * time.Second

// minResumes is the smallest n over which times to resume are worth a p99.
const minResumes = 5

// check is one statement about what was seen.
type check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	Want string `json:"want"`
	Got  string `json:"got"`
}

// measure is one of the lesson's four measures. N is what it was taken over; a
// measure over nothing fails.
type measure struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Good  int    `json:"good"`
	N     int    `json:"n"`
	OK    bool   `json:"ok"`
}

// report is the verdict over facts.
type report struct {
	Seed      uint64        `json:"seed"`
	OK        bool          `json:"ok"`
	Model     string        `json:"model"`
	Relaxed   string        `json:"relaxed,omitempty"` // which checks do not apply, and why
	Seconds   float64       `json:"seconds"`
	Measures  []measure     `json:"measures"`
	Resume    resumeReport  `json:"time_to_resume"`
	Effects   lab.Tally     `json:"effects"`
	InDoubt   int           `json:"in_doubt"`
	ByPerson  int           `json:"resolved_by_a_person"`
	Deaths    []lab.Death   `json:"deaths"`
	Focus     focusFact     `json:"child_17"`
	ManyPages manyPagesFact `json:"shop_23"`
	Budget    budgetFact    `json:"night_budget"`
	Approvals approvalsFact `json:"approvals"`
	Journal   journalFact   `json:"journal"`
	Checks    []check       `json:"checks"`
	Logs      string        `json:"logs,omitempty"`
}

type resumeReport struct {
	N      int     `json:"n"`
	P50Sec float64 `json:"p50_s"`
	P99Sec float64 `json:"p99_s"`
	MaxSec float64 `json:"max_s"`
}

// judge turns facts into a verdict. It is pure.
func judge(f facts) report {
	r := report{
		Seed: f.Seed, Model: f.Model, Seconds: f.Took.Seconds(), Effects: f.Tally, Deaths: f.Deaths,
		Focus: f.Focus, ManyPages: f.ManyPages, Budget: f.Budget, Approvals: f.Approvals, Journal: f.Journal,
	}
	r.measures(f)
	r.checkDuplicates(f)
	r.checkDoubts(f)
	r.checkDeaths(f)
	r.checkJournal(f)
	r.checkApprovals(f)
	if f.Scripted {
		r.checkFocus(f.Focus)
		r.checkManyPages(f.ManyPages)
		r.checkBudget(f.Budget)
		r.checkModel(f)
	} else {
		r.Relaxed = "a real model decides what it asks for: the checks of child 17's requests, shop 23's pages and the night's budget need the script and were left out, and the time to resume holds the model's own time, so it has no limit"
	}
	r.expect("the incidents went as planned", len(f.Incidents) == 0, "no deviation", fmt.Sprintf("%d: %v", len(f.Incidents), f.Incidents))
	r.OK = true
	for _, m := range r.Measures {
		r.OK = r.OK && m.OK
	}
	for _, c := range r.Checks {
		r.OK = r.OK && c.OK
	}
	return r
}

func (r *report) expect(name string, ok bool, want, got string) {
	r.Checks = append(r.Checks, check{Name: name, OK: ok, Want: want, Got: got})
}

func (r *report) equal(name string, want, got int) {
	r.expect(name, want == got, fmt.Sprint(want), fmt.Sprint(got))
}

func (r *report) measures(f facts) {
	resumed, interrupted := 0, 0
	var times []time.Duration
	for _, k := range f.Kills {
		for _, c := range k.Claims {
			interrupted++
			if c.FirstSeq == c.Seq+1 && c.Completed {
				resumed++
			}
			if c.FirstSeq > 0 {
				times = append(times, c.FirstAt.Sub(k.At))
			}
		}
	}
	completed := 0
	for _, run := range f.Runs {
		if run.Status == "completed" {
			completed++
		}
	}
	share := func(good, n int) string {
		if n == 0 {
			return "nothing to measure"
		}
		return fmt.Sprintf("%.1f %%", 100*float64(good)/float64(n))
	}
	r.Resume = resumeReport{N: len(times), P50Sec: lab.Percentile(times, 50).Seconds(), P99Sec: lab.Percentile(times, 99).Seconds(), MaxSec: lab.Percentile(times, 100).Seconds()}
	inTime := lab.Percentile(times, 99) <= resumeLimit
	r.Measures = []measure{
		{"resumption success", share(resumed, interrupted), resumed, interrupted, interrupted > 0 && resumed == interrupted},
		{"duplicate-action rate", share(f.Tally.Duplicates, f.Tally.Effects), f.Tally.Duplicates, f.Tally.Effects, f.Tally.Effects > 0 && f.Tally.Duplicates == 0},
		{"run completion rate", share(completed, f.Expected), completed, f.Expected, f.Expected > 0 && completed == f.Expected && len(f.Runs) == f.Expected},
		{
			"time to resume", fmt.Sprintf("p50 %.2f s, p99 %.2f s", r.Resume.P50Sec, r.Resume.P99Sec), len(times), len(times),
			len(times) >= minResumes && len(times) == interrupted && (inTime || !f.Scripted),
		},
	}
	r.expect("runs that a killed runner had claimed", len(times) >= minResumes, fmt.Sprintf("at least %d", minResumes), fmt.Sprint(len(times)))
	if f.Scripted {
		r.expect("time to resume p99", len(times) > 0 && inTime, fmt.Sprintf("at most %v over n > 0", resumeLimit), fmt.Sprintf("%.2f s, n %d", r.Resume.P99Sec, len(times)))
	}
	alone := slices.ContainsFunc(f.Kills, func(k runnerKill) bool { return k.Alive < 1 })
	r.expect("other runners alive while a resume is measured", len(f.Kills) > 0 && !alone, "at least 1 at each kill", fmt.Sprintf("%d kills, a lonely one: %v", len(f.Kills), alone))
	r.expect("runs of the night", len(f.Runs) == f.Expected, fmt.Sprint(f.Expected), fmt.Sprint(len(f.Runs)))
	var open []string
	for _, run := range f.Runs {
		if run.Status != "completed" {
			open = append(open, run.Name+" "+run.Shop+" "+run.Status)
		}
	}
	r.expect("runs that did not complete", len(open) == 0, "none", fmt.Sprint(open))
}

func (r *report) checkDuplicates(f facts) {
	got := "none"
	for i, k := range f.Tally.Doubled {
		if i == 0 {
			got = ""
		}
		got += fmt.Sprintf("%s took effect %d times; ", k.Business, k.Effects)
	}
	r.expect("second effects of a business key", f.Tally.Duplicates == 0, "none", got)
	r.expect("prices changed", f.Approved > 0 && f.Tally.Keys == f.Approved, fmt.Sprintf("each of the %d approved, at least 1", f.Approved), fmt.Sprint(f.Tally.Keys))
	r.expect("repeats that the other side recognised by their key", f.Tally.Replayed > 0, "at least 1", fmt.Sprint(f.Tally.Replayed))
	r.equal("arrivals without an idempotency key", 0, f.Tally.Keyless)
	r.equal("arrivals that the pricing API refused", 0, f.Tally.Refused)
}

func (r *report) checkDoubts(f facts) {
	r.InDoubt = len(f.Doubts)
	for _, d := range f.Doubts {
		if d.By != "" {
			r.ByPerson++
		}
	}
	r.equal("effects in doubt", 1, r.InDoubt)
	r.equal("doubts resolved by a person", 1, r.ByPerson)
	for _, d := range f.Doubts {
		want := "not_happened"
		if f.Tally.EffectsOf(d.Business) > 0 {
			want = "happened"
		}
		r.expect("the person's answer about "+d.Business, d.Decision == want, want, d.Decision)
	}
}

func (r *report) checkDeaths(f facts) {
	killed := map[string]int{}
	stopped := 0
	for _, d := range f.Deaths {
		switch {
		case !d.Wanted:
			r.expect("processes that ended by themselves", false, "none", fmt.Sprintf("%s pid %d: %s", d.Process, d.Pid, d.Exit))
		case d.Signal == "SIGKILL":
			killed[d.Role]++
		case d.Signal == "SIGTERM":
			stopped++
			r.expect("a clean end of "+d.Process+" after SIGTERM", d.Exit == "exit status 0", "exit status 0", d.Exit)
		}
	}
	for _, role := range []string{"runner", "tools", "trigger", "approvals", "nats"} {
		r.expect("kill -9 of "+role, killed[role] > 0, "at least 1", fmt.Sprint(killed[role]))
	}
	r.expect("SIGTERM of a service", stopped > 0, "at least 1", fmt.Sprint(stopped))
	r.expect("kills between the other side's commit and its record", f.ToolsKilled == 2, "2", fmt.Sprint(f.ToolsKilled))
}

func (r *report) checkJournal(f facts) {
	r.expect("rows in the journals", f.Journal.Rows > 0, "at least 1", fmt.Sprint(f.Journal.Rows))
	r.equal("runs there are, the night started once", f.Expected, f.Journal.Runs)
	r.equal("runs with a gap in their journal", 0, f.Journal.Gaps)
	r.equal("facts recorded twice", 0, f.Journal.DoubleCauses)
}

func (r *report) checkApprovals(f facts) {
	a := f.Approvals
	r.expect("proposals put before a person", a.Requests > 0, "at least 1", fmt.Sprint(a.Requests))
	r.expect("decisions posted", a.Requests > 0 && a.Posts >= 2*a.Requests, fmt.Sprintf("at least 2 for each of %d", a.Requests), fmt.Sprint(a.Posts))
	r.expect("decisions posted in the same moment", a.Pairs > 0, "at least 1 pair", fmt.Sprint(a.Pairs))
	r.expect("posts answered 200", a.Accepted == a.Posts, fmt.Sprint(a.Posts), fmt.Sprintf("%d, others %v", a.Accepted, a.Other))
	r.equal("proposals decided exactly once", a.Requests, a.Decided)
	r.equal("decisions that a run heard exactly once", a.Requests, a.Heard)
}

func (r *report) checkFocus(c focusFact) {
	r.expect("child 17: first seq after the kill", c.SeqAtKill > 0 && c.FirstSeq == c.SeqAtKill+1, fmt.Sprint(c.SeqAtKill+1), fmt.Sprint(c.FirstSeq))
	r.expect("child 17: another worker went on", c.WorkerAfter != "" && c.WorkerBefore != "" && c.WorkerAfter != c.WorkerBefore, "not "+c.WorkerBefore, c.WorkerAfter)
	r.expect("child 17: model requests", c.Requests > 0 && c.Requests == c.Answers+c.InFlight, fmt.Sprintf("%d answers + %d in flight at the kill", c.Answers, c.InFlight), fmt.Sprint(c.Requests))
	r.expect("child 17: calls in flight at the kill", c.InFlight == 1, "1", fmt.Sprint(c.InFlight))
}

func (r *report) checkManyPages(m manyPagesFact) {
	r.equal("shop 23: fetches the model asked for", manyPages, m.Asked)
	r.equal("shop 23: fetches that reached the web", 12, m.Fetched)
	r.equal("shop 23: calls answered with the budget", manyPages-12, m.BudgetResults)
}

func (r *report) checkBudget(b budgetFact) {
	r.equal("alert events of the night's cap", 1, b.Alerts)
	r.equal("alerts on record", 1, b.Rows)
	r.equal("raises by an operator", 1, b.Raises)
	r.expect("runs paused for the cap", b.Paused > 0, "at least 1", fmt.Sprint(b.Paused))
	r.expect("tokens used against the raised cap", b.Used > b.Ceiling && b.Used <= b.Raised, fmt.Sprintf("over %d, at most %d", b.Ceiling, b.Raised), fmt.Sprint(b.Used))
}

func (r *report) checkModel(f facts) {
	j := f.Journal
	r.expect("model requests of all runs", j.Requests > 0 && j.Requests == j.Answers+j.InFlight, fmt.Sprintf("%d answers + %d in flight at a kill", j.Answers, j.InFlight), fmt.Sprint(j.Requests))
	r.expect("rules of the model API broken", len(f.Broken) == 0, "none", fmt.Sprint(f.Broken))
}
