package chaos

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func held() []Result {
	var all []Result
	for _, s := range Scenarios() {
		all = append(all, Result{Name: s.Name, OK: true, Deaths: 1, Runs: 6, Completed: 6, Keys: 10})
	}
	return all
}

func TestConclude(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func([]Result)
		want   string // part of what is broken; empty: nothing
	}{
		"everything holds": {func([]Result) {}, ""},
		"an effect came twice": {func(r []Result) {
			r[3].OK, r[3].Duplicates, r[3].Problems = false, 1, []string{"x took effect 2 times"}
		}, "x took effect 2 times"},
		"half resume late": {func(r []Result) { r[0].resumes = []time.Duration{3 * time.Second, time.Second, 3 * time.Second} }, "p50"},
		"one resumes late": {func(r []Result) { r[0].resumes = []time.Duration{4 * time.Second, time.Second, time.Second} }, "p99"},
		"a slow hand-over": {func(r []Result) { r[0].handovers = []time.Duration{300 * time.Millisecond} }, "hand-over"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			results := held()
			tc.change(results)
			p := conclude(1, results, true)
			if broken := strings.Join(p.Broken, "; "); p.OK != (tc.want == "") || !strings.Contains(broken, tc.want) {
				t.Errorf("ok %v, broken %q, want %q", p.OK, broken, tc.want)
			}
		})
	}
	if conclude(1, nil, true).OK {
		t.Error("nothing was played, and all holds")
	}
}

func TestStale(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := conclude(1, held(), true).WritePage(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	if got := Stale(page); len(got) != 0 {
		t.Errorf("a page that was just written is stale: %q", got)
	}
	kept, err := os.ReadFile("../../docs/durability.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range Stale(string(kept)) {
		t.Errorf("docs/durability.md: %s (make chaos)", line)
	}
	gone := slices.DeleteFunc(strings.Split(page, "\n"), func(l string) bool { return strings.HasPrefix(l, "| `nats-lost` |") })
	for name, text := range map[string]string{
		"a scenario is missing":  strings.Join(gone, "\n"),
		"one is called another":  strings.Replace(page, "`runner/bus.acked`", "`runner/bus.asked`", 1),
		"one means another":      strings.Replace(page, "a start is committed", "a start was committed", 1),
		"one did not hold":       strings.Replace(page, "| holds: ", "| **broken**: ", 1),
		"another introduction":   "x" + page,
		"nothing at all is said": "",
	} {
		if len(Stale(text)) == 0 {
			t.Errorf("%s: not stale", name)
		}
	}
}

func TestScenarios_HaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range Scenarios() {
		if seen[s.Name] || s.What == "" || strings.Contains(s.What, "|") {
			t.Errorf("%q: twice, or without a word", s.Name)
		}
		seen[s.Name] = true
	}
	if _, err := choose([]string{"runner/*", "nats-lost"}, false); err != nil {
		t.Error(err)
	}
	if _, err := choose([]string{"nobody"}, false); err == nil {
		t.Error("a scenario that is none was chosen")
	}
	if few, err := choose(nil, true); err != nil || len(few) != len(shortly) {
		t.Errorf("the short form plays %d scenarios, want %d: %v", len(few), len(shortly), err)
	}
}
