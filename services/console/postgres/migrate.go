package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

const (
	firstRow    = `SELECT data FROM runner.v_events WHERE run_id = $1 AND namespace = $2 AND seq = 1`
	movesOfRun  = `SELECT seq, kind, at, data FROM runner.v_moves WHERE run_id = $1 AND namespace = $2 ORDER BY seq DESC LIMIT $3`
	movedOfRun  = `SELECT seq, data FROM runner.v_moves WHERE run_id = $1 AND namespace = $2 AND kind = '` + events.FactMigrated + `' ORDER BY seq`
	answersOver = `
SELECT seq, coalesce(data->>'model_name', ''), coalesce((data->>'bound')::boolean, false), coalesce(json_array_length(data->'calls'), 0) > 0
  FROM runner.v_events
 WHERE run_id = $1 AND namespace = $2 AND kind = '` + events.FactModelAnswered + `'
   AND seq > coalesce((SELECT max((data->>'up_to')::bigint) FROM runner.v_events WHERE run_id = $1 AND namespace = $2 AND kind = '` + events.FactContextCompacted + `'), 0)
   AND data->>'stop_reason' <> 'model_context_window_exceeded'
   AND (coalesce(json_array_length(data->'calls'), 0) > 0 OR btrim(coalesce(data->>'text', '')) <> '')
 ORDER BY seq`
	failedOver = `
SELECT data->>'next_model' FROM runner.v_events
 WHERE run_id = $1 AND namespace = $2 AND kind = '` + events.FactModelFailed + `' AND seq > $3 AND data->>'next_model' <> ''
 ORDER BY seq DESC LIMIT 1`
	versionsOf = `
SELECT v.kind, v.name, v.digest, v.body FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS n(kind, digest, i)
  JOIN catalog.v_versions v ON v.namespace = $1 AND v.kind = n.kind AND v.digest = n.digest ORDER BY n.i`
	currentOf = `
SELECT c.kind, c.name, c.digest, v.body FROM unnest($3::text[]) WITH ORDINALITY AS n(named, i)
  JOIN catalog.v_current c ON c.namespace = $1 AND c.kind = $2 AND c.name = n.named
  JOIN catalog.v_versions v USING (namespace, kind, name, digest) ORDER BY n.i`
)

// History implements console.MigrationReader.
func (s *Store) History(ctx context.Context, run console.Run) (h console.History, err error) {
	if !run.Taken() {
		return h, nil
	}
	var raw json.RawMessage
	if err := s.pool.QueryRow(ctx, firstRow, string(run.ID), run.Namespace).Scan(&raw); err != nil {
		return h, notFound(err, "read what run %s executes", run.ID)
	}
	if err := json.Unmarshal(raw, &h.Pins); err != nil {
		return h, fmt.Errorf("read what run %s executes: %w", run.ID, err)
	}
	type moved struct {
		seq int64
		events.Migrated
	}
	var moves []moved
	var m moved
	rows, err := s.pool.Query(ctx, movedOfRun, string(run.ID), run.Namespace)
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&m.seq, &raw}, func() error {
			m.Migrated = events.Migrated{}
			err := json.Unmarshal(raw, &m.Migrated)
			moves, h.Pins = append(moves, m), m.Pins
			return err
		})
	}
	if err != nil {
		return h, fmt.Errorf("read the moves of run %s: %w", run.ID, err)
	}
	var last int64
	if len(moves) > 0 {
		last = moves[len(moves)-1].seq
	}
	var a console.PastAnswer
	if rows, err = s.pool.Query(ctx, answersOver, string(run.ID), run.Namespace); err == nil {
		_, err = pgx.ForEachRow(rows, []any{&a.Row, &a.Model, &a.Bound, &a.Calls}, func() error {
			a.Provider, a.CurrentPins = "", a.Row > last
			if i := slices.IndexFunc(moves, func(m moved) bool { return m.seq > a.Row }); i >= 0 {
				a.Provider = moves[i].Providers[a.Model]
			}
			h.Answers = append(h.Answers, a)
			return nil
		})
	}
	if err != nil {
		return h, fmt.Errorf("read the answers of run %s: %w", run.ID, err)
	}
	if err := s.pool.QueryRow(ctx, failedOver, string(run.ID), run.Namespace, last).Scan(&h.Answering); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return h, fmt.Errorf("read which model answers run %s: %w", run.ID, err)
	}
	return h, nil
}

// Versions implements console.MigrationReader.
func (s *Store) Versions(ctx context.Context, namespace string, refs []events.Ref) ([]console.Definition, error) {
	var kinds, digests []string
	for _, r := range refs {
		kinds, digests = append(kinds, r.Kind), append(digests, string(r.Digest))
	}
	return s.definitions(ctx, versionsOf, namespace, kinds, digests)
}

// CurrentVersions implements console.MigrationReader.
func (s *Store) CurrentVersions(ctx context.Context, namespace, kind string, names []string) ([]console.Definition, error) {
	return s.definitions(ctx, currentOf, namespace, kind, names)
}

func (s *Store) definitions(ctx context.Context, query string, args ...any) ([]console.Definition, error) {
	rows, err := s.pool.Query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("read versions: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d console.Definition, err error) {
		err = row.Scan(&d.Kind, &d.Name, &d.Digest, &d.Body)
		return d, err
	})
	if err != nil {
		return nil, fmt.Errorf("read versions: %w", err)
	}
	return out, nil
}

// CommandOf implements console.MigrationReader.
func (s *Store) CommandOf(ctx context.Context, namespace, key string) (console.Command, error) {
	rows, err := s.pool.Query(ctx, commandByKey, namespace, key)
	if err != nil {
		return console.Command{}, fmt.Errorf("find command: %w", err)
	}
	c, err := pgx.CollectExactlyOneRow(rows, scanCommand)
	return c, notFound(err, "find command")
}

// queueMoves reads the newest rows about moving a run.
func queueMoves(b *pgx.Batch, namespace string, id events.RunID, r *console.Run) {
	b.Queue(movesOfRun, string(id), namespace, console.MaxRunMoves).Query(func(rows pgx.Rows) (err error) {
		r.Moves, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (console.Move, error) {
			var seq int64
			var kind string
			var at time.Time
			var data json.RawMessage
			if err := row.Scan(&seq, &kind, &at, &data); err != nil {
				return console.Move{}, err
			}
			return console.ReadMove(seq, kind, at, data)
		})
		return err
	})
}
