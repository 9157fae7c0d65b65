package chaos

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// WriteJSON prints the report for programs.
func (p Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(p)
}

// Write prints the measures for people, and what is broken.
func (p Report) Write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\nReport of seed %d, %.0f s\n\n", p.Seed, p.Seconds)
	for _, m := range p.measures() {
		fmt.Fprintf(t, "%s\t%s\n", m[0], m[1])
	}
	for _, r := range p.Results {
		if r.Skipped != "" {
			fmt.Fprintf(t, "not played: %s\t%s\n", r.Name, r.Skipped)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if p.OK {
		_, err := fmt.Fprint(w, "\nEvery promise holds.\n")
		return err
	}
	fmt.Fprintln(w)
	for _, b := range p.Broken {
		fmt.Fprintf(w, "BROKEN  %s\n", b)
	}
	_, err := fmt.Fprintf(w, "\nData and logs of every process: %s\nPlay it again with --seed %d.\n", p.Logs, p.Seed)
	return err
}

// measures are the rows of both the printed report and the page.
func (p Report) measures() [][2]string {
	return [][2]string{
		{"scenarios that hold", fmt.Sprintf("%d of %d", p.Held, p.Scenarios)},
		{"process deaths", fmt.Sprint(p.Deaths)},
		{"resumption success", fmt.Sprintf("%d of %d scenarios with a death ended with every run completed", p.Resumed, p.Lost)},
		{"completion", fmt.Sprintf("%d of %d runs", p.Completed, p.Runs)},
		{"duplicate actions", fmt.Sprintf("%d, of %d business keys", p.Duplicates, p.Keys)},
		{"in doubt", fmt.Sprintf("%d, put before a person and settled", p.InDoubt)},
		{"time to resume after kill -9", p.Resume.String()},
		{"hand-over after SIGTERM", p.HandOver.String()},
	}
}
