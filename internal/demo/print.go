package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// writeJSON prints the report for programs.
func (r report) writeJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// write prints the report for people.
func (r report) write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\nReport of seed %d, %s model, %.1f s\n\n", r.Seed, r.Model, r.Seconds)
	for _, m := range r.Measures {
		n := fmt.Sprintf("%d of %d", m.Good, m.N)
		if m.Name == "time to resume" {
			n = fmt.Sprintf("n %d", m.N)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", mark(m.OK), m.Name, m.Value, n)
	}
	e := r.Effects
	fmt.Fprintf(t, "\nEffects, from the pricing API's own file\n")
	fmt.Fprintf(t, "  arrivals %d\teffects %d\tduplicates %d\tbusiness keys %d\treplayed by the other side %d\n", e.Arrivals, e.Effects, e.Duplicates, e.Keys, e.Replayed)
	for _, k := range e.Doubled {
		fmt.Fprintf(t, "  %s\ttook effect %d times (%d arrivals)\n", k.Business, k.Effects, k.Arrivals)
	}
	fmt.Fprintf(t, "  in doubt %d\tresolved by a person %d\n", r.InDoubt, r.ByPerson)
	fmt.Fprintf(t, "\nProcess deaths\n")
	for _, d := range r.Deaths {
		fmt.Fprintf(t, "  %s\t%s\tpid %d\t%s\t%s\t%s\n", d.At.Format("15:04:05.000"), d.Process, d.Pid, d.Signal, d.Exit, d.Point)
	}
	if r.Relaxed == "" {
		c, m, b := r.Focus, r.ManyPages, r.Budget
		fmt.Fprintf(t, "\nChild 17, run %s\n", c.RunID)
		fmt.Fprintf(t, "  journal seq at the kill %d\tfirst seq after resume %d\n", c.SeqAtKill, c.FirstSeq)
		fmt.Fprintf(t, "  worker before %s\tafter %s\n", c.WorkerBefore, c.WorkerAfter)
		fmt.Fprintf(t, "  model requests %d\t= %d answers + %d in flight at the kill\n", c.Requests, c.Answers, c.InFlight)
		fmt.Fprintf(t, "\nShop 23\n  asked for %d pages\t%d reached the web\t%d answered with the budget\n", m.Asked, m.Fetched, m.BudgetResults)
		fmt.Fprintf(t, "\nNight's cap\n  %d tokens\traised to %d\t%d used\t%d runs paused\talerts %d\n", b.Ceiling, b.Raised, b.Used, b.Paused, b.Alerts)
	} else {
		fmt.Fprintf(t, "\n%s\n", r.Relaxed)
	}
	a := r.Approvals
	fmt.Fprintf(t, "\nApprovals\n  %d proposals\tposted %d times\t%d pairs in the same moment\tdecided once %d\theard once %d\n", a.Requests, a.Posts, a.Pairs, a.Decided, a.Heard)
	if err := t.Flush(); err != nil {
		return err
	}
	return r.writeVerdict(w)
}

func (r report) writeVerdict(w io.Writer) error {
	failed := 0
	var b strings.Builder
	for _, m := range r.Measures {
		if !m.OK {
			failed++
			fmt.Fprintf(&b, "FAILED  %s: %s (%d of %d)\n", m.Name, m.Value, m.Good, m.N)
		}
	}
	for _, c := range r.Checks {
		if !c.OK {
			failed++
			fmt.Fprintf(&b, "FAILED  %s\n        expected %s\n        seen     %s\n", c.Name, c.Want, c.Got)
		}
	}
	if failed == 0 {
		_, err := fmt.Fprintf(w, "\nAll %d checks hold.\n", len(r.Measures)+len(r.Checks))
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n%d of %d checks failed. Logs of every process: %s\nRun it again with --seed %d.\n", b.String(), failed, len(r.Measures)+len(r.Checks), r.Logs, r.Seed)
	return err
}

func mark(ok bool) string {
	if ok {
		return "ok"
	}
	return "FAILED"
}
