package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

// programRuns are programs' own runs in the columns of takenRuns. Their seq is
// the version of the newest checkpoint and one for the start.
const programRuns = `
SELECT p.run_id, p.namespace, 'program', p.name, '', p.status, p.version + 1, '', p.input, p.output, p.error,
       p.labels, NULL::json, p.principal, '', '',
       0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint, '', 0::bigint, NULL::timestamptz, 0,
       p.created_at, p.created_at, p.updated_at, p.ended_at, true
  FROM console.programs p`

const startProgram = `
INSERT INTO console.programs (run_id, namespace, name, input, labels, principal, request_digest, idempotency_key)
VALUES ($1, $2, $3, $4::text::json, $5::jsonb, $6, $7, $8)
ON CONFLICT (namespace, idempotency_key) DO NOTHING
RETURNING run_id`

const programByKey = `SELECT run_id, status, request_digest FROM console.programs WHERE namespace = $1 AND idempotency_key = $2`

const programStatus = `SELECT status, version, coalesce(outcome_digest, '') FROM console.programs WHERE namespace = $1 AND run_id = $2`

// loadCheckpoint reads version $3, or the newest for -1.
const loadCheckpoint = `
SELECT p.status, CASE WHEN $3::bigint < 0 THEN p.version ELSE $3::bigint END, c.state::text, c.saved_at
  FROM console.programs p
  LEFT JOIN console.checkpoints c ON c.run_id = p.run_id AND c.version = CASE WHEN $3::bigint < 0 THEN p.version ELSE $3::bigint END
 WHERE p.namespace = $1 AND p.run_id = $2`

// saveCheckpoint is a compare and set: it stores version $3 + 1 if $3 is the
// newest, and drops the state of the one that is too old; its row stays, as the
// run's journal.
const saveCheckpoint = `
WITH run AS (
	UPDATE console.programs p SET version = p.version + 1, updated_at = clock_timestamp()
	 WHERE p.namespace = $1 AND p.run_id = $2 AND p.version = $3 AND p.status = 'running'
	RETURNING p.run_id, p.version
), dropped AS (
	UPDATE console.checkpoints c SET state = NULL FROM run WHERE c.run_id = run.run_id AND c.version = run.version - $6
)
INSERT INTO console.checkpoints (run_id, version, state, save_key)
SELECT run.run_id, run.version, $4::text::json, $5 FROM run
RETURNING version, saved_at`

const savedByKey = `SELECT version, saved_at FROM console.checkpoints WHERE run_id = $1 AND version = $2 AND save_key = $3`

const endProgram = `
UPDATE console.programs SET status = $3, output = $4::text::json, error = $5::text::json, outcome_digest = $6,
	ended_at = clock_timestamp(), updated_at = clock_timestamp()
WHERE namespace = $1 AND run_id = $2 AND status = 'running'
RETURNING status`

// eventsOfProgram is the journal of a program's run: its start, each checkpoint
// (also one whose state is dropped) and its end.
const eventsOfProgram = `
SELECT seq, kind, status, at, data FROM (
	SELECT 1::bigint AS seq, 'program_started' AS kind, 'running' AS status, p.created_at AS at, json_build_object('name', p.name)::text AS data
	  FROM console.programs p WHERE p.run_id = $1 AND p.namespace = $2
	UNION ALL
	SELECT c.version + 1, 'checkpoint_saved', 'running', c.saved_at, json_build_object('version', c.version)::text
	  FROM console.checkpoints c JOIN console.programs p USING (run_id) WHERE c.run_id = $1 AND p.namespace = $2
	UNION ALL
	SELECT p.version + 2, 'program_ended', p.status, p.ended_at, '{}'
	  FROM console.programs p WHERE p.run_id = $1 AND p.namespace = $2 AND p.ended_at IS NOT NULL) journal
 WHERE seq > $3 ORDER BY seq LIMIT $4`

func (s *Store) programEvents(ctx context.Context, namespace string, run events.RunID, after int64, limit int) ([]events.RunEvent, error) {
	rows, err := s.pool.Query(ctx, eventsOfProgram, run, namespace, after, limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (events.RunEvent, error) {
		e := events.RunEvent{RunID: run, Namespace: namespace}
		var data string
		err := row.Scan(&e.Seq, &e.Kind, &e.Status, &e.At, &data)
		e.At, e.Data = e.At.UTC(), json.RawMessage(data)
		return e, err
	})
}

// isProgram reports whether the program of the user drives a run.
const isProgram = `SELECT EXISTS (SELECT 1 FROM console.programs p WHERE p.run_id = $1 AND p.namespace = $2)`

// StartProgram implements console.ProgramStore.
func (s *Store) StartProgram(ctx context.Context, p console.Program) (run events.RunID, status string, replayed bool, err error) {
	labels, err := json.Marshal(p.Labels)
	if err != nil {
		return "", "", false, err
	}
	err = s.pool.QueryRow(ctx, startProgram, p.ID, p.Namespace, p.Name, string(p.Input), labels, p.Principal, p.Digest(), textOrNull(p.Key)).Scan(&run)
	if err == nil {
		return run, events.StatusRunning, false, nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return "", "", false, fmt.Errorf("start run of program %s: %w", p.Name, err)
	}
	var digest events.Digest
	if err := s.pool.QueryRow(ctx, programByKey, p.Namespace, p.Key).Scan(&run, &status, &digest); err != nil {
		return "", "", false, fmt.Errorf("find run of program %s: %w", p.Name, err)
	}
	if digest != p.Digest() {
		return "", "", false, console.ErrKeyReused
	}
	return run, status, true, nil
}

// LoadCheckpoint implements console.ProgramStore.
func (s *Store) LoadCheckpoint(ctx context.Context, namespace string, run events.RunID, version int64) (console.Checkpoint, error) {
	out := console.Checkpoint{RunID: run}
	var state *string
	var savedAt *time.Time
	err := s.pool.QueryRow(ctx, loadCheckpoint, namespace, run, version).Scan(&out.Status, &out.Version, &state, &savedAt)
	if err == nil && state == nil && out.Version != 0 {
		err = pgx.ErrNoRows // dropped, or not there yet
	}
	if err != nil {
		return console.Checkpoint{}, notFound(err, "load checkpoint of run %s", run)
	}
	if state != nil {
		out.State = json.RawMessage(*state)
	}
	out.SavedAt = orZero(savedAt)
	return out, nil
}

// SaveCheckpoint implements console.ProgramStore.
func (s *Store) SaveCheckpoint(ctx context.Context, v console.Save) (console.Checkpoint, error) {
	out := console.Checkpoint{RunID: v.RunID, Status: events.StatusRunning, State: v.State}
	err := s.pool.QueryRow(ctx, saveCheckpoint, v.Namespace, v.RunID, v.Over, string(v.State), textOrNull(v.Key), console.KeptCheckpoints).Scan(&out.Version, &out.SavedAt)
	if err == nil {
		return out, nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return out, fmt.Errorf("save checkpoint of run %s: %w", v.RunID, err)
	}
	var digest string
	if err := s.pool.QueryRow(ctx, programStatus, v.Namespace, v.RunID).Scan(&out.Status, &out.Version, &digest); err != nil {
		return out, notFound(err, "save checkpoint of run %s", v.RunID)
	}
	if v.Key != "" { // an earlier commit whose answer was lost
		newest := out.Version
		err := s.pool.QueryRow(ctx, savedByKey, v.RunID, v.Over+1, v.Key).Scan(&out.Version, &out.SavedAt)
		if err == nil || !errors.Is(err, pgx.ErrNoRows) {
			return out, err
		}
		out.Version = newest
	}
	if out.Status != events.StatusRunning {
		return out, fmt.Errorf("run %s is %s: %w", v.RunID, out.Status, console.ErrEnded)
	}
	return out, fmt.Errorf("run %s is at version %d: %w", v.RunID, out.Version, console.ErrStale)
}

// EndProgram implements console.ProgramStore.
func (s *Store) EndProgram(ctx context.Context, e console.End) (status string, err error) {
	var failure *string
	if e.Error != nil {
		b, err := events.Marshal(e.Error)
		if err != nil {
			return "", err
		}
		failure = textOrNull(string(b))
	}
	err = s.pool.QueryRow(ctx, endProgram, e.Namespace, e.RunID, e.Status, textOrNull(string(e.Output)), failure, e.Digest()).Scan(&status)
	if err == nil || !errors.Is(err, pgx.ErrNoRows) {
		return status, err
	}
	var version int64
	var digest events.Digest
	if err := s.pool.QueryRow(ctx, programStatus, e.Namespace, e.RunID).Scan(&status, &version, &digest); err != nil {
		return "", notFound(err, "end run %s", e.RunID)
	}
	if digest != e.Digest() {
		return status, fmt.Errorf("run %s is %s: %w", e.RunID, status, console.ErrEnded)
	}
	return status, nil
}
