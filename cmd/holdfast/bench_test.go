package main

import (
	"encoding/json"
	"errors"
	"os/exec"
	"testing"

	"github.com/holdfast-run/holdfast/internal/bench"
)

// TestBenchIntake runs the bench as short as it goes: every row is measured, on
// the real trigger, and every ratio is to a limit of the same run. How fast it is
// is not judged here.
func TestBenchIntake(t *testing.T) {
	t.Parallel()
	out, err := command(t, nil, "bench", "intake", "--json", "--duration", "200ms", "--senders", "1,64").Output()
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
	for name, row := range map[string]bench.Row{"single 1": r.Limits.SingleFew, "single 64": r.Limits.SingleMany, "group": r.Limits.Group, "HTTP": r.Limits.HTTP} {
		if row.PerSecond <= 0 || row.P99Ms < row.P50Ms {
			t.Errorf("limit %s: %+v", name, row)
		}
	}
	if len(r.Intake) != 2 || r.Intake[0].Clients != 1 || r.Intake[1].Clients != 64 || r.MeetsGoal == nil {
		t.Fatalf("rows %+v, goal %v", r.Intake, r.MeetsGoal)
	}
	for _, row := range r.Intake {
		if row.PerSecond <= 0 || row.OfGroup != row.PerSecond/r.Limits.Group.PerSecond || row.WALBytes <= 0 || row.CommitsPerStart <= 0 {
			t.Errorf("row %+v", row)
		}
	}
	if one, many := r.Intake[0].CommitsPerStart, r.Intake[1].CommitsPerStart; many >= one {
		t.Errorf("%.2f commits a start by 64 senders, %.2f by one: they were not merged", many, one)
	}
}
