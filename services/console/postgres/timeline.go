package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/console"
)

// objectOf and listOf take what is neither for an empty one: a row that was damaged must
// not hide the others.
func objectOf(value string) string {
	return `CASE WHEN json_typeof(` + value + `) = 'object' THEN ` + value + ` ELSE '{}' END`
}

func listOf(value string) string {
	return `CASE WHEN json_typeof(` + value + `) = 'array' THEN ` + value + ` ELSE '[]' END`
}

// members are an object with the members of a record, each under its own name.
func members(record string, names ...string) string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = "'" + name + "', " + record + `."` + name + `"`
	}
	return strings.Join(out, ", ")
}

func columns(names ...string) string { return `"` + strings.Join(names, `" json, "`) + `" json` }

var (
	askedColumns = []string{"call_id", "tool", "route", "approval_id", "builtin", "problem", "wait", "step"}
	// askedRecord is what a timeline needs of an asked call, without its arguments.
	askedRecord = `json_build_object(` + members("y", "call_id", "tool", "route", "approval_id", "builtin") + `, 'problem', json_build_object('code', y.problem->'code'),
	'wait', json_build_object('name', y.wait->'name'), 'step', json_build_object('question', left(y.step->>'question', 1)))`
	plainColumns = []string{"call_id", "approval_id", "tool", "status", "in_doubt", "settled", "replayed", "kind", "decision", "by", "code", "model", "model_name", "next_model", "worker", "epoch",
		"duration_ms", "cost_micro_usd", "retry_at", "unasked", "until", "past", "accepted_at", "timer", "item", "step", "index", "attempt", "key", "detached", "ref"}
	// timelineOfRun reads each row once and takes out of it what is short.
	timelineOfRun = `
SELECT e.seq, e.at, e.kind, e.cause, e.worker,
       json_strip_nulls(json_build_object(` + members("x", plainColumns...) + `, 'error', json_build_object('code', x.error->'code'), 'edited', x.args IS NOT NULL, 'origin', CASE WHEN x.origin IS NOT NULL THEN true END,
       'calls', ` + askedList("x.calls") + `, 'release', ` + askedList("x.release") + `,
       'children', (SELECT json_agg(json_build_object('item', c->'item', 'ref', c->'ref')) FROM json_array_elements(` + listOf("x.children") + `) c),
       'items', (SELECT json_agg(json_build_object('item', i->'item', 'until', i->'until', 'child', CASE WHEN i->'child' IS NOT NULL THEN json_build_object('item', i->'child'->'item', 'ref', i->'child'->'ref') END,
                'call', (SELECT ` + askedRecord + ` FROM json_to_record(i->'call') AS y(` + columns(askedColumns...) + `) WHERE json_typeof(i->'call') = 'object')))
                FROM json_array_elements(` + listOf("x.items") + `) i WHERE json_typeof(i) = 'object')))
  FROM runner.v_events e, LATERAL json_to_record(` + objectOf("e.data") + `) AS x(` + columns(append(plainColumns, "error", "args", "origin", "calls", "release", "children", "items")...) + `)
 WHERE e.run_id = $1 AND e.namespace = $2 AND e.seq > $3
 ORDER BY e.seq LIMIT $4`
	// toolsOfRun are the versions of tools that the run pinned, and what their names mean
	// now of those that it did not.
	toolsOfRun = `
SELECT DISTINCT ON (v.name) v.name, v.body FROM (
    SELECT t->>'name' AS name, t->>'digest' AS digest, 0 AS rank
      FROM runner.v_events s, json_array_elements((SELECT json_agg(l) FROM (
           SELECT json_array_elements(` + listOf("s.data->'tools'") + `) AS l UNION ALL SELECT json_array_elements(` + listOf("s.data->'steps'") + `)) all_of_it)) t
     WHERE s.run_id = $1 AND s.namespace = $2 AND s.seq = 1
    UNION ALL
    SELECT c.name, c.digest, 1 FROM catalog.v_current c WHERE c.namespace = $2 AND c.kind = 'tool' AND c.name = ANY($3)) n
  JOIN catalog.v_versions v ON v.namespace = $2 AND v.kind = 'tool' AND v.name = n.name AND v.digest = n.digest
 WHERE v.name = ANY($3)
 ORDER BY v.name, n.rank`
)

func askedList(value string) string {
	return `(SELECT json_agg(` + askedRecord + `) FROM json_array_elements(` + listOf(value) + `) c, LATERAL json_to_record(` + objectOf("c") + `) AS y(` + columns(askedColumns...) + `))`
}

// Timeline implements console.TimelineReader.
func (s *Store) Timeline(ctx context.Context, namespace string, run events.RunID, after int64, limit int) ([]console.TimelineRow, error) {
	rows, err := s.pool.Query(ctx, timelineOfRun, string(run), namespace, after, limit)
	if err != nil {
		return nil, fmt.Errorf("read timeline of run %s: %w", run, err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r console.TimelineRow, err error) {
		err = row.Scan(&r.Seq, &r.At, &r.Kind, &r.Cause, &r.Worker, &r.Data)
		r.At = r.At.UTC()
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("read timeline of run %s: %w", run, err)
	}
	return out, nil
}

// ToolEffects implements console.TimelineReader.
func (s *Store) ToolEffects(ctx context.Context, namespace string, run events.RunID, names []string) (map[string]string, error) {
	out := map[string]string{}
	rows, err := s.pool.Query(ctx, toolsOfRun, string(run), namespace, names)
	if err != nil {
		return nil, fmt.Errorf("read tools of run %s: %w", run, err)
	}
	var name string
	var body json.RawMessage
	_, err = pgx.ForEachRow(rows, []any{&name, &body}, func() error {
		if doc, err := spec.Decode(body); err == nil && doc.Tool != nil {
			out[name] = doc.Tool.Effect
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read tools of run %s: %w", run, err)
	}
	return out, nil
}
