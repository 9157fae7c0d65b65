package bench

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// reportOf is a report whose turns are so many of a bare commit loop of 1,000.
func reportOf(perSecond, commits, wal, lone float64) *Report {
	return &Report{
		Version: ReportVersion,
		Limits:  []Row{{Name: limitCommit, Clients: 1, PerSecond: 500, P50Ms: 2}, {Name: limitCommit, Clients: 64, PerSecond: 1000}},
		Rows: []Row{
			{Name: "turns", Clients: 1, P50Ms: lone},
			{Name: "turns", Clients: 512, PerSecond: perSecond, Commits: commits, WALBytes: wal},
		},
	}
}

func TestJudge_NamesTheFloor(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		report *Report
		want   []string // what each line begins with
	}{
		"all floors hold":         {reportOf(200, 0.1, 4096, 24), nil},
		"too slow":                {reportOf(199, 0.1, 4096, 24), []string{"turns, 512 at once: share of the bare commit loop of 64 clients is 0.199, the floor is at least 0.2"}},
		"too many commits":        {reportOf(200, 0.11, 4096, 24), []string{"turns, 512 at once: commits a turn is 0.11, the floor is at most 0.1"}},
		"too much log":            {reportOf(200, 0.1, 4100, 24), []string{"turns, 512 at once: bytes of write-ahead log a turn is"}},
		"a lone turn is too slow": {reportOf(200, 0.1, 4096, 25), []string{"turns, 1 at once: a turn in lone single-row commits is 12.5, the floor is at most 12"}},
		"an aim is no floor":      {&Report{Limits: []Row{{Name: limitCommit, Clients: 64, PerSecond: 1000}}, Rows: []Row{{Name: "reads", Clients: 512, PerSecond: 1}}}, nil},
		"nothing was measured":    {&Report{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			tc.report.Judge()
			got := tc.report.BelowFloors()
			if len(got) != len(tc.want) {
				t.Fatalf("below: %q, want %d", got, len(tc.want))
			}
			for i := range got {
				if !strings.HasPrefix(got[i], tc.want[i]) {
					t.Errorf("%q, want %q ...", got[i], tc.want[i])
				}
			}
		})
	}
}

func TestJudge_Ratios(t *testing.T) {
	t.Parallel()
	r := reportOf(250, 1, 1, 10)
	r.Judge()
	if diff := cmp.Diff(map[string]float64{"commit/1": 0.5, "commit/64": 0.25}, r.Rows[1].Of); diff != "" || r.Rows[0].InCommits != 5 {
		t.Errorf("a lone turn is %v commits, ratios (-want +got):\n%s", r.Rows[0].InCommits, diff)
	}
}

// The document's tables are the command's: each workload has its section, no section is
// of a workload that is gone, and a table's head is what a report writes today.
func TestPerformance_SectionsAreCurrent(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range StaleSections(string(text)) {
		t.Errorf("docs/performance.md: %s (holdfast bench --write docs/performance.md)", line)
	}
	stale := strings.Replace(string(text), "<!-- bench reads -->", "<!-- bench gone -->", 1)
	stale = strings.Replace(stale, "| limit | clients |", "| limit |", 1)
	want := []string{"limits: its table has another head than a report", "reads: its markers are missing", "gone: no workload has that name"}
	if diff := cmp.Diff(want, StaleSections(stale)); diff != "" {
		t.Errorf("of a stale document (-want +got):\n%s", diff)
	}
}

func TestReport_Write(t *testing.T) {
	t.Parallel()
	r := reportOf(250, 1, 1, 10)
	r.Judge()
	var document strings.Builder
	document.WriteString("# Title\n")
	for _, s := range Sections() {
		document.WriteString("\n<!-- bench " + s + " -->\nold " + s + "\n<!-- /bench " + s + " -->\n")
	}
	got, err := r.Write(document.String())
	if err != nil {
		t.Fatal(err)
	}
	again, err := r.Write(got)
	if err != nil || again != got {
		t.Errorf("written twice it is another: %v\n%s", err, cmp.Diff(got, again))
	}
	if strings.Contains(got, "old turns") || !strings.Contains(got, "| 512 | 250 | 0.250 |") || !strings.Contains(got, "old intake") {
		t.Errorf("document:\n%s", got)
	}
	if _, err := r.Write("# Title\n"); err == nil {
		t.Error("a document without markers was written")
	}
}

func TestScript(t *testing.T) {
	t.Parallel()
	first := `{"turns":2,"order":7}`
	for answers, want := range []Said{
		{Tool: "act", Args: `{"n":0}`, Text: "Step 1 of 2 comes now."}, {Tool: "act", Args: `{"n":1}`, Text: "Step 2 of 2 comes now."}, {Text: "Everything is done."},
	} {
		if diff := cmp.Diff(want, Script([]string{"act"}, answers, first)); diff != "" {
			t.Errorf("after %d answers (-want +got):\n%s", answers, diff)
		}
	}
}
