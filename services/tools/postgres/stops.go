package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

const stopColumns = `s.stop_id, s.namespace, s.scope, s.name, s.note, s.principal, s.since, s.ended_at, coalesce(s.ended_by, ''), coalesce(s.end_note, '')`

// standingOf selects the oldest standing stop that forbids a write of a tool in
// a run. The three are placeholders. Only a stop of an agent reads runs.
func standingOf(columns, namespace, tool, run string) string {
	return `SELECT ` + columns + ` FROM tools.stops s
	 WHERE s.ended_at IS NULL AND s.namespace = ` + namespace + `::text
	   AND (s.scope = 'all' OR (s.scope = 'tool' AND s.name = ` + tool + `::text)
	        OR (s.scope = 'agent' AND EXISTS (
	            WITH RECURSIVE up AS (
	                SELECT r.run_id, r.name, r.parent_run_id FROM runner.v_runs r WHERE r.run_id = ` + run + `::text
	                 UNION SELECT p.run_id, p.name, p.parent_run_id FROM runner.v_runs p JOIN up ON p.run_id = up.parent_run_id)
	            SELECT 1 FROM up WHERE up.name = s.name)))
	 ORDER BY s.since, s.stop_id LIMIT 1`
}

// standingSQL looks for many acts at once.
var standingSQL = `
SELECT i.n::int, s.* FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS i(namespace, tool, run_id, n)
 CROSS JOIN LATERAL (` + standingOf(stopColumns+`, 0::bigint`, `i.namespace`, `i.tool`, `i.run_id`) + `) s`

// act is what a stop may forbid.
type act struct {
	namespace, tool string
	run             events.RunID
}

// stood is the stop that forbids an act, if one does; err is of the read, which is not
// tried again here.
type stood struct {
	stop *tools.Stop
	err  error
}

// newStandings merges the looks at stops of acts that are about to begin. Each is sent
// after it was asked for, so it sees every stop that was put before.
func newStandings(s *Store) *pg.Group[act, stood] {
	return &pg.Group[act, stood]{
		Name: "tools.standings", Key: func(a act) string { return string(a.run) }, Repeats: true,
		Many: func(ctx context.Context, all []act) ([]stood, error) { return s.standMany(ctx, all), nil },
	}
}

func (s *Store) standMany(ctx context.Context, all []act) []stood {
	var namespaces, names, runs []string
	for _, a := range all {
		namespaces, names, runs = append(namespaces, a.namespace), append(names, a.tool), append(runs, string(a.run))
	}
	out := make([]stood, len(all))
	b := &pgx.Batch{}
	b.Queue(standingSQL, namespaces, names, runs).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[numberedStop])
		for _, r := range found {
			out[r.N-1].stop = new(tools.Stop)
			*out[r.N-1].stop = r.stop()
		}
		return err
	})
	if err := s.keyed.Send(ctx, b); err != nil {
		for i := range out {
			out[i] = stood{err: err}
		}
	}
	return out
}

const putStopSQL = `
INSERT INTO tools.stops AS s (stop_id, namespace, scope, name, note, principal) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (namespace, scope, name) WHERE ended_at IS NULL DO NOTHING
RETURNING ` + stopColumns + `, 0::bigint`

const heldBySQL = `(SELECT count(*) FROM tools.effects e WHERE e.held_by = s.stop_id AND e.state = 'intent')`

const sameStopSQL = `SELECT ` + stopColumns + `, ` + heldBySQL + ` FROM tools.stops s
 WHERE s.namespace = $1 AND s.scope = $2 AND s.name = $3 AND s.ended_at IS NULL`

const endStopSQL = `
UPDATE tools.stops s SET ended_at = clock_timestamp(), ended_by = $3, end_note = $4
 WHERE s.namespace = $1 AND s.stop_id = $2 AND s.ended_at IS NULL`

const getStopSQL = `SELECT ` + stopColumns + `, ` + heldBySQL + ` FROM tools.stops s WHERE s.namespace = $1 AND s.stop_id = $2`

const listStopsSQL = `SELECT ` + stopColumns + `, ` + heldBySQL + ` FROM tools.stops s
 WHERE s.namespace = $1 AND (NOT $2::bool OR s.ended_at IS NULL)
   AND (NOT $3::bool OR (s.since, s.stop_id) < ($4::timestamptz, $5::text))
 ORDER BY s.since DESC, s.stop_id DESC LIMIT $6`

// releaseSQL lets go what no standing stop holds. A hold that was committed
// while its stop ended is found by the next sweep, so no release is lost.
const releaseSQL = `
WITH free AS (
	SELECT e.namespace, e.tool, e.key FROM tools.effects e
	 WHERE e.state = 'intent' AND e.held_by IS NOT NULL
	   AND NOT EXISTS (SELECT 1 FROM tools.stops s WHERE s.stop_id = e.held_by AND s.ended_at IS NULL)
	 LIMIT $1 FOR UPDATE SKIP LOCKED
)
UPDATE tools.effects e SET held_by = NULL, next_attempt_at = clock_timestamp(), wake_at = clock_timestamp(), updated_at = clock_timestamp()
  FROM free WHERE e.namespace = free.namespace AND e.tool = free.tool AND e.key = free.key`

type stopRow struct {
	ID, Namespace, Scope, Name, Note, By string
	Since                                time.Time
	EndedAt                              *time.Time
	EndedBy, EndNote                     string
	Held                                 int64
}

// numberedStop is a stop and the act that it forbids, from one.
type numberedStop struct {
	N int
	stopRow
}

func (r stopRow) stop() tools.Stop {
	return tools.Stop{ID: r.ID, Namespace: r.Namespace, Scope: r.Scope, Name: r.Name, Note: r.Note, By: r.By,
		Since: r.Since.UTC(), EndedAt: at(r.EndedAt), EndedBy: r.EndedBy, EndNote: r.EndNote, Held: r.Held}
}

func stops(rows pgx.Rows, err error) ([]tools.Stop, error) {
	found, err := collect[stopRow](rows, err)
	if err != nil {
		return nil, err
	}
	out := make([]tools.Stop, 0, len(found))
	for _, r := range found {
		out = append(out, r.stop())
	}
	return out, nil
}

// oneStop returns nil when there is none.
func oneStop(rows pgx.Rows, err error) (*tools.Stop, error) {
	found, err := stops(rows, err)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

var _ tools.StopStore = (*Store)(nil)

// Standing implements tools.Store.
func (s *Store) Standing(ctx context.Context, namespace, tool string, run events.RunID) (*tools.Stop, error) {
	saw, err := s.standings.Do(ctx, act{namespace, tool, run})
	if err == nil {
		err = saw.err
	}
	return saw.stop, err
}

// PutStop implements tools.StopStore.
func (s *Store) PutStop(ctx context.Context, stop tools.Stop) (tools.Stop, bool, error) {
	for range 3 {
		made, err := oneStop(s.pool.Query(ctx, putStopSQL, stop.ID, stop.Namespace, stop.Scope, stop.Name, stop.Note, stop.By))
		if err != nil {
			return tools.Stop{}, false, err
		}
		if made != nil {
			return *made, true, nil
		}
		found, err := oneStop(s.pool.Query(ctx, sameStopSQL, stop.Namespace, stop.Scope, stop.Name))
		if err != nil {
			return tools.Stop{}, false, err
		}
		if found != nil {
			return *found, false, nil
		}
	}
	return tools.Stop{}, false, errors.New("stops of this scope come and go; stop again")
}

// EndStop implements tools.StopStore.
func (s *Store) EndStop(ctx context.Context, namespace, id, by, note string) (tools.Stop, error) {
	if _, err := s.pool.Exec(ctx, endStopSQL, namespace, id, by, note); err != nil {
		return tools.Stop{}, err
	}
	return s.Stop(ctx, namespace, id)
}

// Stop implements tools.StopStore.
func (s *Store) Stop(ctx context.Context, namespace, id string) (tools.Stop, error) {
	found, err := oneStop(s.pool.Query(ctx, getStopSQL, namespace, id))
	if err == nil && found == nil {
		err = fmt.Errorf("stop %s: %w", id, tools.ErrNotFound)
	}
	if err != nil {
		return tools.Stop{}, err
	}
	return *found, nil
}

// Stops implements tools.StopStore.
func (s *Store) Stops(ctx context.Context, f tools.StopFilter) ([]tools.Stop, error) {
	after := f.After
	if after == nil {
		after = &tools.StopPosition{}
	}
	return stops(s.pool.Query(ctx, listStopsSQL, f.Namespace, f.Standing, f.After != nil, after.Since, after.ID, f.Limit))
}
