package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// ReportVersion is the form of Report. Members are added within a version; one
// that goes or changes its meaning takes the next.
const ReportVersion = 1

// Report is one run: what was measured beside the limits of the same run.
type Report struct {
	Version  int           `json:"version"` // ReportVersion
	At       time.Time     `json:"at"`
	CPUs     int           `json:"cpus"`
	Postgres int           `json:"postgres"` // its major version
	Duration time.Duration `json:"duration_ns"`
	// Load is the machine's load average of the last minute, before and after.
	Load [2]float64 `json:"load"`
	// Limits are what the machine does without Holdfast, on the same servers.
	Limits []Row `json:"limits"`
	// Rows are the workloads, each with the ratios to Limits.
	Rows []Row `json:"rows"`
	// Verdicts compare rows with floors and aims. A floor or aim without its row is
	// not judged.
	Verdicts []Verdict `json:"verdicts,omitempty"`
}

// Row is one measurement: a limit, or a workload with so many clients.
type Row struct {
	Name    string `json:"name"`
	Clients int    `json:"clients"` // at once
	Unit    string `json:"unit"`    // what N counts: "turns"
	N       int    `json:"n"`
	// PerSecond is N by the time that it took.
	PerSecond float64 `json:"per_second"`
	// P50Ms and P99Ms are of one unit, from its beginning to its end.
	P50Ms float64 `json:"p50_ms"`
	P99Ms float64 `json:"p99_ms"`
	// FactsPerSecond counts rows of journals, and two for each effect: its intent
	// and its outcome.
	FactsPerSecond float64 `json:"facts_per_second,omitempty"`
	// What one unit cost. Commits are transactions that wrote, messages those that
	// JetStream stored.
	Commits  float64 `json:"commits_per_unit,omitempty"`
	Messages float64 `json:"messages_per_unit,omitempty"`
	WALBytes float64 `json:"wal_bytes_per_unit,omitempty"`
	// CPU is the processor time of one unit in microseconds, by process; "bench" are
	// the clients, and the servers that tools and models are asked at. Other load of
	// the machine changes it little, unlike what is done in a second. Empty where the
	// system does not tell.
	CPU    map[string]float64 `json:"cpu_us_per_unit,omitempty"`
	Stages []Stage            `json:"stages,omitempty"`
	// Of is PerSecond by that of each limit, named "commit/64" for 64 clients.
	Of map[string]float64 `json:"of,omitempty"`
	// InCommits is P50Ms by that of a lone single-row commit.
	InCommits float64 `json:"p50_in_commits,omitempty"`
}

// Stage is a part of what the units of a row went through.
type Stage struct {
	Name  string  `json:"name"`
	N     int     `json:"n"`
	P50Ms float64 `json:"p50_ms"`
	P99Ms float64 `json:"p99_ms"`
}

// cpu is the processor time of all.
func (r Row) cpu() (us float64) {
	for _, n := range r.CPU {
		us += n
	}
	return us
}

// key names a row among the limits.
func (r Row) key() string { return fmt.Sprintf("%s/%d", r.Name, r.Clients) }

// find returns the row of a name and a number of clients; nil when there is none.
func find(rows []Row, name string, clients int) *Row {
	for i := range rows {
		if rows[i].Name == name && rows[i].Clients == clients {
			return &rows[i]
		}
	}
	return nil
}

// ReadReport reads what --json wrote.
func ReadReport(path string) (*Report, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if r.Version != ReportVersion {
		return nil, fmt.Errorf("%s: it is a report of version %d, and this program knows %d", path, r.Version, ReportVersion)
	}
	return &r, nil
}

// Judge fills in the ratios and compares with floors and aims.
func (r *Report) Judge() {
	lone := find(r.Limits, limitCommit, 1)
	for i := range r.Rows {
		row := &r.Rows[i]
		row.Of = map[string]float64{}
		for _, l := range r.Limits {
			if l.PerSecond > 0 {
				row.Of[l.key()] = row.PerSecond / l.PerSecond
			}
		}
		if lone != nil && lone.P50Ms > 0 {
			row.InCommits = row.P50Ms / lone.P50Ms
		}
	}
	r.Verdicts = nil
	for _, g := range goals {
		row := find(r.Rows, g.row, g.clients)
		if row == nil {
			continue
		}
		got, ok := g.of(row)
		if !ok {
			continue // its limit was not measured
		}
		v := Verdict{Row: g.row, Clients: g.clients, What: g.what, AtMost: g.atMost, Got: got, Aim: g.aim, Floor: g.floor, MeetsAim: g.met(got, g.aim)}
		v.BelowFloor = g.floor != nil && !g.met(got, *g.floor)
		r.Verdicts = append(r.Verdicts, v)
	}
}

// BelowFloors names what a report misses, a line each.
func (r *Report) BelowFloors() (lines []string) {
	for _, v := range r.Verdicts {
		if v.BelowFloor {
			lines = append(lines, v.String())
		}
	}
	return lines
}
