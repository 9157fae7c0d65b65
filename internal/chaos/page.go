package chaos

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

const pageHead = `# Durability

<!-- written by "holdfast chaos --write docs/durability.md", which "make chaos" does -->

What became of work while everything below it died. ` + "`make chaos`" + ` runs every service as a process of its own, kills them at every place that the
code names, breaks what they stand on, and counts from outside. Anybody can repeat it: ` + "`holdfast chaos`" + ` needs a machine with PostgreSQL's programs and
nothing else. ` + "`holdfast chaos --list`" + ` names the scenarios, ` + "`--scenarios 'runner/*'`" + ` plays some, ` + "`--seed`" + ` sets their order and who is hit. It exits with 1 when a promise is broken.
What a deployment of yours has gone through is said by ` + "`holdfast durability`" + `.

## How it is judged

- A **scene** is a signed webhook, sent twice, that starts an agent which pays, sends, and orders after a person said yes, twice; one whose question is asked again and of others before anybody answers; a flow of agents with a timer;
  a schedule; a run that waits for a signal; one that is paused and goes on, and one whose pause is taken back at once; an effect whose answer is lost and is looked up.
- The **other side** is a server of the suite. It writes every request to a file of its own before it answers, and that file says how often each business key
  took effect. Of its shops one honours ` + "`Idempotency-Key`" + `, the others do not.
- A scene **holds** when every run completes, every business key took effect exactly once, no journal has a gap or a cause twice, and no process ended that
  was not killed. What nobody could know was put before a person, who looked at the other side: that is *in doubt*.
- **Time to resume** is from ` + "`kill -9`" + ` of a runner, with default settings and while others live, to the next request of each of its runs at the model:
  p50 at most 2.5 s, p99 at most 3.5 s. **Hand-over** is from the hang-up of a runner that was told to stop to that request: at most 0.2 s.

`

// WritePage writes the report as a page of the manual.
func (p Report) WritePage(w io.Writer) error {
	var b strings.Builder
	b.WriteString(pageHead)
	fmt.Fprintf(&b, "## What was measured\n\nSeed %d, %.0f s.\n\n| measure | result |\n|---|---|\n", p.Seed, p.Seconds)
	for _, m := range p.measures() {
		fmt.Fprintf(&b, "| %s | %s |\n", m[0], m[1])
	}
	all := Scenarios()
	write := func(title, text string, of func(Scenario) bool) {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| scenario | what happens | what came of it |\n|---|---|---|\n", title, text)
		for _, s := range all {
			if of(s) {
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.Name, s.What, p.outcome(s.Name))
			}
		}
	}
	write("What is broken under load", "Work arrives all the time; it is broken, mended, and everything that was accepted must come true.",
		func(s Scenario) bool { return s.kind != kindPlace })
	write("Where processes are killed", "One process of each service, `SIGKILL` in the middle of a scene, started again. The name is `service/place`.",
		func(s Scenario) bool { return s.kind == kindPlace })
	_, err := io.WriteString(w, b.String())
	return err
}

// outcome says what the last play of a scenario came to.
func (p Report) outcome(name string) string {
	for _, r := range slices.Backward(p.Results) {
		switch {
		case r.Name != name:
		case r.Skipped != "":
			return "not played: " + r.Skipped
		case !r.OK:
			return "**broken**: " + strings.ReplaceAll(strings.Join(r.Problems, "; "), "|", "/")
		default:
			return fmt.Sprintf("holds: %d of %d runs, %s, %d duplicates, %d in doubt", r.Completed, r.Runs, deaths(r.Deaths), r.Duplicates, r.Doubts)
		}
	}
	return "not played"
}

func deaths(n int) string {
	if n == 1 {
		return "1 death"
	}
	return fmt.Sprintf("%d deaths", n)
}

var pageRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (.*?) \\| (.*) \\|$")

// Stale says how a page differs from what the code would play: scenarios that it lacks,
// that are gone, that mean something else, or that do not hold. Empty: it is up to date.
func Stale(page string) (problems []string) {
	if !strings.HasPrefix(page, pageHead) {
		problems = append(problems, "its introduction is another")
	}
	rows := map[string][]string{}
	for _, m := range pageRow.FindAllStringSubmatch(page, -1) {
		rows[m[1]] = m
	}
	for _, s := range Scenarios() {
		row := rows[s.Name]
		delete(rows, s.Name)
		switch {
		case row == nil:
			problems = append(problems, s.Name+" is missing")
		case row[2] != s.What:
			problems = append(problems, fmt.Sprintf("%s says %q, and it is %q", s.Name, row[2], s.What))
		case !strings.HasPrefix(row[3], "holds: ") && !strings.HasPrefix(row[3], "not played: "):
			problems = append(problems, fmt.Sprintf("%s: %s", s.Name, row[3]))
		}
	}
	for name := range rows {
		problems = append(problems, name+" is no scenario")
	}
	slices.Sort(problems)
	return problems
}
