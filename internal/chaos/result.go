package chaos

import (
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/internal/lab"
)

// Result is what one scenario came to.
type Result struct {
	Name       string   `json:"name"`
	What       string   `json:"what"`
	Skipped    string   `json:"skipped,omitempty"` // why it was not possible here
	OK         bool     `json:"ok"`
	Deaths     int      `json:"process_deaths"`
	Runs       int      `json:"runs"`
	Completed  int      `json:"completed"`
	Keys       int      `json:"business_keys"` // that were to take effect once
	Duplicates int      `json:"duplicates"`    // effects beyond the first
	Doubts     int      `json:"in_doubt"`      // put before a person, who looked and settled them
	Seconds    float64  `json:"seconds"`
	Problems   []string `json:"problems,omitempty"`

	lost, resumed int             // runs whose worker died, and those that went on
	resumes       []time.Duration // from a kill to the next request of each run
	handovers     []time.Duration // from the hang-up of a stopping worker to the next request
}

// Times is a measured span.
type Times struct {
	N      int     `json:"n"`
	P50Sec float64 `json:"p50_seconds"`
	P99Sec float64 `json:"p99_seconds"`
	MaxSec float64 `json:"max_seconds"`
}

func timesOf(ds []time.Duration) Times {
	return Times{N: len(ds), P50Sec: lab.Percentile(ds, 50).Seconds(), P99Sec: lab.Percentile(ds, 99).Seconds(), MaxSec: lab.Percentile(ds, 100).Seconds()}
}

func (t Times) String() string {
	if t.N == 0 {
		return "not measured"
	}
	return fmt.Sprintf("p50 %.2f s, p99 %.2f s, most %.2f s, of %d", t.P50Sec, t.P99Sec, t.MaxSec, t.N)
}

// Report is what the suite came to.
type Report struct {
	Seed       uint64   `json:"seed"`
	OK         bool     `json:"ok"`
	Seconds    float64  `json:"seconds"`
	Scenarios  int      `json:"scenarios"` // that were played
	Held       int      `json:"scenarios_held"`
	Deaths     int      `json:"process_deaths"`
	Lost       int      `json:"scenarios_with_a_death"`
	Resumed    int      `json:"scenarios_resumed"` // of these, those whose every run completed
	Runs       int      `json:"runs"`
	Completed  int      `json:"completed"`
	Keys       int      `json:"business_keys"`
	Duplicates int      `json:"duplicates"`
	InDoubt    int      `json:"in_doubt"`
	Resume     Times    `json:"time_to_resume"`
	HandOver   Times    `json:"hand_over"`
	Broken     []string `json:"broken,omitempty"` // promises that do not hold
	Results    []Result `json:"results"`
	Logs       string   `json:"logs,omitempty"`
}

// Bounds of the measured times with default settings, while other workers live.
const (
	resumeP50   = 2500 * time.Millisecond
	resumeP99   = 3500 * time.Millisecond
	handOverMax = 200 * time.Millisecond
)

// conclude adds up results. bounds says whether the measured times are judged.
func conclude(seed uint64, results []Result, bounds bool) Report {
	p := Report{Seed: seed, Results: results}
	var resumes, handovers []time.Duration
	for _, r := range results {
		if r.Skipped != "" {
			continue
		}
		p.Scenarios++
		p.Deaths += r.Deaths
		p.Runs += r.Runs
		p.Completed += r.Completed
		p.Keys += r.Keys
		p.Duplicates += r.Duplicates
		p.InDoubt += r.Doubts
		if r.Deaths > 0 {
			p.Lost++
			if r.Completed == r.Runs {
				p.Resumed++
			}
		}
		resumes, handovers = append(resumes, r.resumes...), append(handovers, r.handovers...)
		if r.OK {
			p.Held++
			continue
		}
		for _, problem := range r.Problems {
			p.Broken = append(p.Broken, r.Name+": "+problem)
		}
	}
	p.Resume, p.HandOver = timesOf(resumes), timesOf(handovers)
	if bounds {
		over := func(what string, got float64, most time.Duration) {
			if got > most.Seconds() {
				p.Broken = append(p.Broken, fmt.Sprintf("%s is %.2f s, and at most %.1f s is promised", what, got, most.Seconds()))
			}
		}
		over("time to resume, p50,", p.Resume.P50Sec, resumeP50)
		over("time to resume, p99,", p.Resume.P99Sec, resumeP99)
		over("hand-over after SIGTERM", p.HandOver.MaxSec, handOverMax)
	}
	p.OK = len(p.Broken) == 0 && p.Scenarios > 0 && p.Held == p.Scenarios
	return p
}
