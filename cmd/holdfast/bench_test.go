package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/bench"
)

// TestBench runs the bench as short as it goes, with HOLDFAST_LAB_LONG every workload and
// else turns and intake: each is measured, on real services, and every ratio is to a
// limit of the same run. How fast it is is not judged here, what a turn costs in
// messages is: that is the same on any machine.
func TestBench(t *testing.T) {
	t.Parallel()
	workloads := []string{"turns", "intake"}
	if os.Getenv("HOLDFAST_LAB_LONG") != "" {
		workloads = bench.Names()
	}
	args := append([]string{"bench", "--json", "--duration", "200ms", "--turns", "2", "--clients", "16", "--children", "20", "--waiting", "20", "--watchers", "20"}, workloads...)
	out, err := command(t, nil, args...).Output()
	if err != nil {
		if e, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("%v\n%s", err, e.Stderr)
		}
		t.Fatal(err)
	}
	var r bench.Report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, l := range r.Limits {
		if l.PerSecond <= 0 || l.P99Ms < l.P50Ms || l.N == 0 {
			t.Errorf("limit %+v", l)
		}
	}
	rows := map[string]int{}
	for _, row := range r.Rows {
		rows[row.Name]++
		if row.PerSecond <= 0 || row.P50Ms <= 0 || row.P99Ms < row.P50Ms || row.WALBytes <= 0 || row.Commits <= 0 || row.Messages <= 0 || row.Of["commit/64"] <= 0 || row.InCommits <= 0 {
			t.Errorf("row %+v", row)
		}
	}
	for _, name := range workloads {
		if rows[name] != 1 {
			t.Errorf("%d rows of %s, want 1", rows[name], name)
		}
	}
	for _, row := range r.Rows {
		if row.Name == "turns" {
			// A run of two turns: its start, two calls, two results, and the events of seven rows; some of it falls out of the window.
			if row.Messages > 9 || row.FactsPerSecond < 3*row.PerSecond || len(row.Stages) == 0 {
				t.Errorf("a turn took %.1f messages and %.1f facts: %+v", row.Messages, row.FactsPerSecond/row.PerSecond, row)
			}
		}
	}
}

// A report below a floor ends the command with 1, and it says which floor; without
// --floors it is a report as any other.
func TestBench_BelowAFloor(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "report.json")
	report := `{"version":1,"limits":[{"name":"commit","clients":64,"per_second":1000}],"rows":[{"name":"turns","clients":512,"per_second":199,"commits_per_unit":0.1,"wal_bytes_per_unit":4096}]}`
	if err := os.WriteFile(path, []byte(report), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := command(t, nil, "bench", "--from", path).CombinedOutput(); err != nil {
		t.Errorf("without --floors: %v\n%s", err, out)
	}
	out, err := command(t, nil, "bench", "--from", path, "--floors").CombinedOutput()
	e, ok := errors.AsType[*exec.ExitError](err)
	if !ok || e.ExitCode() != exitFailure {
		t.Fatalf("%v, want exit code %d\n%s", err, exitFailure, out)
	}
	if want := "turns, 512 at once: share of the bare commit loop of 64 clients is 0.199, the floor is at least 0.2"; strings.Count(string(out), "the floor is") != 1 || !strings.Contains(string(out), want) {
		t.Errorf("it says\n%s\nwant %s", out, want)
	}
}
