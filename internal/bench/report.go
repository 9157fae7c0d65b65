package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// Goals of intake, on any machine.
const (
	goalShare = 0.5 // of the group commit of a start's rows, with 64 senders
	goalP99   = 50  // ms
)

// Report is one run: what was measured beside the limits of the same run.
type Report struct {
	CPUs     int           `json:"cpus"`
	Postgres int           `json:"postgres"`
	Duration time.Duration `json:"duration_ns"`
	// Load is the machine's load average of the last minute, before and after.
	Load   [2]float64  `json:"load"`
	Limits Limits      `json:"limits"`
	Intake []IntakeRow `json:"intake"`
	// MeetsGoal is nil when 64 senders were not measured.
	MeetsGoal *bool `json:"meets_goal,omitempty"`
}

// Limits are what the machine does without Holdfast, on the same servers.
type Limits struct {
	SingleFew  Row `json:"single_1"`  // one small row per commit, one client
	SingleMany Row `json:"single_64"` // the same, 64 clients on 64 connections
	Group      Row `json:"group_64"`  // one small row through a bare group commit, 64 clients
	Rows       Row `json:"rows_64"`   // the rows of one start through the trigger's own group commit, 64 clients, no request
	HTTP       Row `json:"http_64"`   // the same requests, answered without any work
}

// Row is one measurement.
type Row struct {
	Clients   int     `json:"clients"`
	PerSecond float64 `json:"per_second"`
	P50Ms     float64 `json:"p50_ms"`
	P99Ms     float64 `json:"p99_ms"`
	N         int     `json:"n"` // operations
	CPU       CPU     `json:"cpu_us"`
}

// CPU is the processor time of one operation in microseconds, by who spent it. It
// is all 0 where the system does not tell. Other load of the machine changes it
// little, unlike what is done in a second.
type CPU struct {
	Door     float64 `json:"door"`
	Postgres float64 `json:"postgres"`
	Bench    float64 `json:"bench"` // the senders or clients; for webhooks also NATS
}

// Total is the processor time of all.
func (c CPU) Total() float64 { return c.Door + c.Postgres + c.Bench }

// IntakeRow is one level of senders. What a start costs includes its
// announcement on NATS.
type IntakeRow struct {
	Row
	CommitsPerStart float64 `json:"commits_per_start"`   // transactions that wrote
	WALBytes        float64 `json:"wal_bytes_per_start"` // of the write-ahead log
	OfSingle        float64 `json:"of_single"`           // of single-row commits/s, by as many clients where that was measured
	OfGroup         float64 `json:"of_group"`            // of the group commit of one small row
	OfRows          float64 `json:"of_rows"`             // of the group commit of a start's rows
	OfHTTP          float64 `json:"of_http"`             // of requests/s without any work
	// OfGroupCPU is how many rows of the group-commit limit cost the processor time
	// of one start, inverted: what OfGroup would be on a machine that has only
	// processors to wait for. 0 where the system does not tell.
	OfGroupCPU float64 `json:"of_group_cpu"`
}

func intakeRow(senders int, s sample, before, after counters) IntakeRow {
	n := float64(max(len(s.took), 1))
	return IntakeRow{
		Row:             s.row(senders),
		CommitsPerStart: float64(after.commits-before.commits) / n,
		WALBytes:        float64(after.wal-before.wal) / n,
	}
}

// judge computes the ratios.
func (r *Report) judge() {
	for i := range r.Intake {
		row := &r.Intake[i]
		single := r.Limits.SingleMany
		if row.Clients == few {
			single = r.Limits.SingleFew
		}
		row.OfSingle = row.PerSecond / single.PerSecond
		row.OfGroup = row.PerSecond / r.Limits.Group.PerSecond
		row.OfRows = row.PerSecond / r.Limits.Rows.PerSecond
		row.OfHTTP = row.PerSecond / r.Limits.HTTP.PerSecond
		if start := row.CPU.Total(); start > 0 {
			row.OfGroupCPU = r.Limits.Group.CPU.Total() / start
		}
		if row.Clients == many {
			meets := row.OfRows >= goalShare && row.P99Ms < goalP99
			r.MeetsGoal = &meets
		}
	}
}

// Print writes the report for people.
func (r *Report) Print(w io.Writer) error {
	fmt.Fprintf(w, "%d CPUs, PostgreSQL %d with fsync; servers, door and senders share the machine; %s a row; load %.1f, then %.1f\n\n", r.CPUs, r.Postgres, r.Duration, r.Load[0], r.Load[1])
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "limits of this run\tclients\tn\tper second\tp50 ms\tp99 ms\tCPU us: postgres\tclients\t\n")
	for _, l := range []struct {
		name string
		row  Row
	}{
		{"one row per commit", r.Limits.SingleFew},
		{"one row per commit", r.Limits.SingleMany},
		{"group commit of one row", r.Limits.Group},
		{"group commit of a start's rows", r.Limits.Rows},
		{"HTTP answered without work", r.Limits.HTTP},
	} {
		fmt.Fprintf(t, "%s\t%d\t%d\t%.0f\t%.2f\t%.2f\t%.0f\t%.0f\t\n", l.name, l.row.Clients, l.row.N, l.row.PerSecond, l.row.P50Ms, l.row.P99Ms,
			l.row.CPU.Postgres, l.row.CPU.Bench)
	}
	fmt.Fprintf(t, "\t\t\t\t\t\t\t\t\nwebhooks accepted\tsenders\tn\tper second\tp50 ms\tp99 ms\tof single\tof group\tof rows\tof HTTP\tcommits/start\tWAL B/start\t\n")
	for _, i := range r.Intake {
		fmt.Fprintf(t, "signed, stored, answered 202\t%d\t%d\t%.0f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.0f\t\n",
			i.Clients, i.N, i.PerSecond, i.P50Ms, i.P99Ms, i.OfSingle, i.OfGroup, i.OfRows, i.OfHTTP, i.CommitsPerStart, i.WALBytes)
	}
	fmt.Fprintf(t, "\t\t\t\t\t\t\nCPU us of one start\tsenders\tdoor\tpostgres\tsenders and NATS\tgroup row / start\t\n")
	for _, i := range r.Intake {
		fmt.Fprintf(t, "with its announcement\t%d\t%.0f\t%.0f\t%.0f\t%.2f\t\n", i.Clients, i.CPU.Door, i.CPU.Postgres, i.CPU.Bench, i.OfGroupCPU)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if r.MeetsGoal != nil {
		verdict := "missed"
		if *r.MeetsGoal {
			verdict = "met"
		}
		_, err := fmt.Fprintf(w, "\ngoal, %d senders: at least %.2f of the group commit of a start's rows and p99 under %d ms: %s\n", many, goalShare, goalP99, verdict)
		return err
	}
	return nil
}
