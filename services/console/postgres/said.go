package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

var saidColumns = []string{"call_id", "approval_id", "tool", "status", "settled", "replayed", "kind", "decision", "by", "code", "model", "model_name", "duration_ms", "until", "timer", "item", "run_id", "step", "detached"}

// saidOfRun reads rows for people: of a large one the short members and the beginnings
// of its texts.
var saidOfRun = `
SELECT e.run_id, e.namespace, e.seq, e.kind, e.status, e.at, e.cause, e.worker,
       CASE WHEN b.n <= $5 THEN e.data ELSE (
            SELECT json_strip_nulls(json_build_object(` + members("x", saidColumns...) + `, 'error', json_build_object('code', x.error->'code', 'message', left(x.error->>'message', 1000)),
                   'text', left(x.text #>> '{}', 4000), 'summary', left(x.summary #>> '{}', 4000), 'message', left(x.message #>> '{}', 4000), 'left', left(x."left" #>> '{}', 1000),
                   'principal', x.principal, 'reason', left(x.reason #>> '{}', 1000), 'id', x.id, 'signal_id', x.signal_id, 'up_to', x.up_to, 'usage', x.usage, 'retry', x.retry,
                   'result', left(x.result #>> '{}', 3000), 'output', left(x.output #>> '{}', 3000), 'shown', left(x.shown #>> '{}', 3000), 'data', left(x.data #>> '{}', 3000), 'args', left(x.args #>> '{}', 3000),
                   'question', json_build_object('text', left(x.question->>'text', 1000)), 'edits', json_build_object('message', left(x.edits->>'message', 2000), 'prompt', left(x.edits->>'prompt', 2000)),
                   'calls', (SELECT json_agg(json_build_object(` + members("y", "call_id", "tool", "route", "approval_id", "builtin") + `, 'problem', json_build_object('code', y.problem->'code'), 'args', left(y.args #>> '{}', 1000)))
                             FROM json_array_elements(` + listOf("x.calls") + `) c, LATERAL json_to_record(` + objectOf("c") + `) AS y(` + columns(append(askedColumns, "args")...) + `))))
              FROM json_to_record(` + objectOf("e.data") + `) AS x(` + columns(append(saidColumns, "error", "text", "summary", "message", "left", "principal", "reason", "id", "signal_id", "up_to", "usage", "retry", "result", "output", "shown", "data", "args", "question", "edits", "calls")...) + `)) END,
       CASE WHEN b.n <= $5 THEN 0 ELSE b.n END
  FROM runner.v_events e, LATERAL (SELECT octet_length(e.data::text) AS n) b
 WHERE e.run_id = $1 AND e.namespace = $2 AND e.seq > $3
 ORDER BY e.seq LIMIT $4`

// Said implements console.SaidReader.
func (s *Store) Said(ctx context.Context, namespace string, run events.RunID, after int64, limit int) ([]events.RunEvent, error) {
	rows, err := s.pool.Query(ctx, saidOfRun, string(run), namespace, after, limit, console.SaidBytes)
	if err != nil {
		return nil, fmt.Errorf("read what was said in run %s: %w", run, err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e events.RunEvent, err error) {
		err = row.Scan(&e.RunID, &e.Namespace, &e.Seq, &e.Kind, &e.Status, &e.At, &e.Cause, &e.Worker, &e.Data, &e.Elided)
		e.At = e.At.UTC()
		return e, err
	})
	if err == nil && len(out) == 0 {
		out, err = s.programEvents(ctx, namespace, run, after, limit)
	}
	if err != nil {
		return nil, fmt.Errorf("read what was said in run %s: %w", run, err)
	}
	return out, nil
}
