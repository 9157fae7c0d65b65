package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// reading is what the machine had counted at a moment.
type reading struct {
	at       time.Time // by the database's clock, as rows say it
	took     time.Time // by ours, which has no steps
	commits  int64     // transactions that wrote
	wal      int64     // bytes
	messages uint64
	cpu      map[string]time.Duration
}

// Transactions that write have numbers of their own, which count at once;
// pg_stat_database lags by seconds and counts reads too.
const queryCounters = `
SELECT clock_timestamp(), pg_snapshot_xmax(pg_current_snapshot())::text::bigint, (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint`

var allStreams = []string{events.StreamIn, events.StreamRuns, events.StreamTools, events.StreamApprovals, events.StreamEvents}

func (l *lab) read(ctx context.Context) (r reading, err error) {
	r.cpu = map[string]time.Duration{}
	if r.cpu["bench"], err = cpuOf(os.Getpid(), false); err != nil {
		return r, err
	}
	if r.cpu["postgres"], err = cpuOf(l.meter.postmaster, true); err != nil {
		return r, err
	}
	for _, name := range l.processes {
		if r.cpu[shown(name)], err = cpuOf(l.sup.Pid(name), false); err != nil {
			return r, err
		}
	}
	for _, name := range allStreams {
		s, err := l.js.Stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return r, fmt.Errorf("stream %s: %w", name, err)
		}
		r.messages += s.CachedInfo().State.LastSeq
	}
	err = l.pool.QueryRow(ctx, queryCounters).Scan(&r.at, &r.commits, &r.wal)
	r.took = time.Now()
	return r, err
}

// shown is the name of a process in a report.
func shown(process string) string {
	if process == scriptedRunner {
		return "runner"
	}
	return process
}

// window is what happened between two readings.
type window struct {
	from, to reading
}

// measure reads, waits for work, and reads again.
func (l *lab) measure(ctx context.Context, work func() error) (w window, err error) {
	if w.from, err = l.read(ctx); err != nil {
		return w, err
	}
	if err := work(); err != nil {
		return w, err
	}
	w.to, err = l.read(ctx)
	return w, err
}

func (w window) elapsed() time.Duration { return w.to.took.Sub(w.from.took) }

// row is what n units in the window were and cost.
func (w window) row(name string, clients int, unit string, n int) Row {
	each := float64(max(n, 1))
	r := Row{
		Name: name, Clients: clients, Unit: unit, N: n,
		PerSecond: float64(n) / max(w.elapsed().Seconds(), 1e-9),
		Commits:   float64(w.to.commits-w.from.commits) / each,
		Messages:  float64(w.to.messages-w.from.messages) / each,
		WALBytes:  float64(w.to.wal-w.from.wal) / each,
	}
	for process, used := range w.to.cpu {
		if spent := used - w.from.cpu[process]; spent > 0 {
			if r.CPU == nil {
				r.CPU = map[string]float64{}
			}
			r.CPU[process] = float64(spent.Microseconds()) / each
		}
	}
	return r
}
