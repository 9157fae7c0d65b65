package e2e

import (
	"encoding/json"
	"testing"
)

// The short form of "holdfast chaos" plays on one deployment and every promise holds.
// Its times are those of a machine with nothing else to do, so they are not judged here.
func TestChaosShort(t *testing.T) {
	t.Parallel()
	stdout, stderr, code := command(t, nil, "chaos", "--short", "--seed", "1", "--no-bounds", "--json")
	var report struct {
		OK         bool     `json:"ok"`
		Scenarios  int      `json:"scenarios"`
		Deaths     int      `json:"process_deaths"`
		Completed  int      `json:"completed"`
		Duplicates int      `json:"duplicates"`
		Broken     []string `json:"broken"`
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatalf("%v, code %d: %s\n%s", err, code, stdout, stderr)
	}
	if code != 0 || !report.OK || report.Scenarios < 4 || report.Deaths < 3 || report.Completed == 0 || report.Duplicates != 0 {
		t.Errorf("code %d, %+v\n%s", code, report, stderr)
	}
}
