package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// table is what a report shows: one for the limits, one for each workload, one for
// what came of the goals.
type table struct {
	section string // "limits", a workload's name, or "goals"
	head    []string
	rows    [][]string
}

// tables are those of the rows that a report has.
func (r *Report) tables() (all []table) {
	if len(r.Limits) > 0 {
		all = append(all, r.limitTable())
	}
	for _, w := range Workloads() {
		t := workloadTable(w)
		for _, row := range r.Rows {
			if row.Name == w.Name {
				t.rows = append(t.rows, workloadCells(w, row))
			}
		}
		if len(t.rows) > 0 {
			all = append(all, t)
		}
	}
	if len(r.Verdicts) > 0 {
		all = append(all, r.goalTable())
	}
	return all
}

var limitHead = []string{"limit", "clients", "per second", "p50 ms", "p99 ms", "commits", "WAL bytes", "CPU µs: Postgres", "NATS", "clients"}

func (r *Report) limitTable() table {
	t := table{section: limitsWorkload.Name, head: limitHead}
	for _, l := range r.Limits {
		t.rows = append(t.rows, []string{
			l.Name, fmt.Sprint(l.Clients), fmt.Sprintf("%.0f", l.PerSecond), fmt.Sprintf("%.2f", l.P50Ms), fmt.Sprintf("%.2f", l.P99Ms), fmt.Sprintf("%.3g", l.Commits),
			fmt.Sprintf("%.0f", l.WALBytes), fmt.Sprintf("%.0f", l.CPU["postgres"]), fmt.Sprintf("%.0f", l.CPU["nats"]), fmt.Sprintf("%.0f", l.CPU["bench"]),
		})
	}
	return t
}

// workloadTable is the table of a workload, without rows.
func workloadTable(w Workload) table {
	head := []string{"at once", w.Unit + "/s", "of commit/64", "of group/512", "of publish/512", "p50 ms", "p99 ms", "facts/s", "commits", "messages", "WAL bytes", "CPU µs"}
	for _, s := range w.Stages {
		head = append(head, s.Name+" ms")
	}
	return table{section: w.Name, head: head}
}

func workloadCells(w Workload, r Row) []string {
	cells := []string{
		fmt.Sprint(r.Clients), fmt.Sprintf("%.0f", r.PerSecond), ratio(r, "commit/64"), ratio(r, "group/512"), ratio(r, "publish/512"),
		fmt.Sprintf("%.2f", r.P50Ms), fmt.Sprintf("%.2f", r.P99Ms), fmt.Sprintf("%.0f", r.FactsPerSecond), fmt.Sprintf("%.2f", r.Commits),
		fmt.Sprintf("%.1f", r.Messages), fmt.Sprintf("%.0f", r.WALBytes), cpuCell(r),
	}
	for _, d := range w.Stages {
		cell := "–"
		if at := slices.IndexFunc(r.Stages, func(s Stage) bool { return s.Name == d.Name }); at >= 0 {
			cell = fmt.Sprintf("%.1f / %.1f", r.Stages[at].P50Ms, r.Stages[at].P99Ms)
		}
		cells = append(cells, cell)
	}
	return cells
}

func ratio(r Row, limit string) string {
	if of, ok := r.Of[limit]; ok {
		return fmt.Sprintf("%.3f", of)
	}
	return "–"
}

// cpuCell is the processor time of a unit, and whose it was.
func cpuCell(r Row) string {
	if len(r.CPU) == 0 {
		return "–"
	}
	var names []string
	for name := range r.CPU {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return int(r.CPU[b]*1000) - int(r.CPU[a]*1000) })
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %.0f", name, r.CPU[name])
	}
	return fmt.Sprintf("%.0f: %s", r.cpu(), strings.Join(names, ", "))
}

var goalHead = []string{"workload", "at once", "what", "measured", "floor", "aim", ""}

func (r *Report) goalTable() table {
	t := table{section: "goals", head: goalHead}
	for _, v := range r.Verdicts {
		bound, verdict, floor := "≥", "short of the aim", "–"
		if v.AtMost {
			bound = "≤"
		}
		switch {
		case v.BelowFloor:
			verdict = "misses the floor"
		case v.MeetsAim:
			verdict = "met"
		}
		if v.Floor != nil {
			floor = fmt.Sprintf("%s %g", bound, *v.Floor)
		}
		t.rows = append(t.rows, []string{v.Row, fmt.Sprint(v.Clients), v.What, fmt.Sprintf("%.3g", v.Got), floor, fmt.Sprintf("%s %g", bound, v.Aim), verdict})
	}
	return t
}

// machine is what a report says about where it was made.
func (r *Report) machine() string {
	return fmt.Sprintf("%d CPUs, PostgreSQL %d with fsync; servers, services and clients share the machine; %s a row; load %.1f, then %.1f", r.CPUs, r.Postgres, r.Duration, r.Load[0], r.Load[1])
}

// Print writes the report for people.
func (r *Report) Print(w io.Writer) error {
	fmt.Fprintln(w, r.machine())
	for _, t := range r.tables() {
		fmt.Fprintf(w, "\n%s\n", t.section)
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(tw, strings.Join(t.head, "\t"))
		for _, cells := range t.rows {
			fmt.Fprintln(tw, strings.Join(cells, "\t"))
		}
		if err := tw.Flush(); err != nil {
			return err
		}
	}
	return nil
}
