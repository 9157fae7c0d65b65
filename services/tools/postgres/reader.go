package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/services/tools"
)

const getEffectSQL = `SELECT ` + effectColumns + ` FROM tools.effects e WHERE e.namespace = $1 AND e.effect_id = $2`

const receiptsOfSQL = `SELECT receipts::text FROM tools.v_effects WHERE namespace = $1 AND effect_id = $2`

// listedSQL lists doubts that nobody has settled first, then the newest, as far as a
// search looks. Of a run it lists what the run and all that it started did. Each
// half reads an index in its order, and a key is looked up below each tool.
func listedSQL(f tools.Filter) string {
	asFiltered := asFiltered
	if f.State != "" && f.State != tools.EffectInDoubt {
		asFiltered = ` AND e.state = '` + storedState(f.State) + `'` + asFiltered
	}
	if f.RunID != "" {
		asFiltered = ` AND e.effect_id IN (SELECT c.effect_id FROM tools.calls c JOIN tree USING (run_id) WHERE c.effect_id IS NOT NULL
		         UNION ALL SELECT p.effect_id FROM tools.effects p JOIN tree USING (run_id) WHERE p.on_doubt IS NOT NULL)` + asFiltered
	}
	if f.Twice {
		asFiltered = ` AND e.effect_id IN (SELECT r.effect_id FROM tools.receipts r WHERE ` + mayBeTwice + `)` + asFiltered
	}
	return `
WITH RECURSIVE tree AS (
	SELECT $4::text AS run_id WHERE $4 <> ''
	 UNION SELECT r.run_id FROM runner.v_runs r JOIN tree t ON r.parent_run_id = t.run_id WHERE r.namespace = $1
), ` + namesOfTools + `, listed AS (
	SELECT * FROM (
		(SELECT true AS doubt, e.* FROM tools.effects e WHERE e.state = 'unknown' AND e.settled_by IS NULL AND NOT $13::bool
		    AND (NOT $5::bool OR ($6::bool AND (e.created_at, e.effect_id) < ($7::timestamptz, $8::text)))` + asFiltered + `)
		UNION ALL
		(SELECT false, e.* FROM tools.effects e WHERE NOT (e.state = 'unknown' AND e.settled_by IS NULL) AND $2 <> 'in_doubt'
		    AND (NOT $5::bool OR $6::bool OR (e.created_at, e.effect_id) < ($7::timestamptz, $8::text))` + asFiltered + `)
	) two ORDER BY doubt DESC, created_at DESC, effect_id DESC LIMIT $9
)`
}

// storedState is the state in the row of what a filter calls so. What is rare, and only
// that, has an index (migrations/0018_rare_effects.sql), and an index needs the state in
// the statement's text.
func storedState(state string) string {
	switch state {
	case tools.EffectSucceeded, tools.EffectFailed, tools.EffectUnknown, tools.EffectExpired:
		return state
	}
	return tools.EffectIntent // held and awaiting are kinds of it
}

const asFiltered = `
		    AND e.namespace = $1 AND ($3 = '' OR e.tool = $3)
		    AND ($2 IN ('', 'in_doubt') OR CASE WHEN e.state <> 'intent' THEN e.state WHEN e.held_by IS NOT NULL THEN 'held' WHEN e.attempt_id IS NOT NULL AND e.reply_until IS NOT NULL THEN 'awaiting' ELSE e.state END = $2)
		    AND ($10 = '' OR (e.key = $10 AND e.tool = ANY (ARRAY(SELECT n.tool FROM names n WHERE n.tool IS NOT NULL))))
		    AND ($11::timestamptz IS NULL OR e.created_at >= $11) AND ($12::timestamptz IS NULL OR e.created_at < $12)
		    AND ($14 = '' OR (e.state = 'intent' AND e.held_by = $14))
		  ORDER BY e.created_at DESC, e.effect_id DESC LIMIT $9`

// namesOfTools finds each name once, without reading all rows.
const namesOfTools = `names AS (
	(SELECT e.tool FROM tools.effects e WHERE e.namespace = $1 ORDER BY e.tool LIMIT 1)
	UNION ALL
	SELECT (SELECT e.tool FROM tools.effects e WHERE e.namespace = $1 AND e.tool > n.tool ORDER BY e.tool LIMIT 1) FROM names n WHERE n.tool IS NOT NULL
)`

// mayBeTwice is a receipt r of an act that came too late to count and may have
// happened: not a lookup, and not a refusal.
const mayBeTwice = `r.late AND r.body->>'probe' IS NULL
	AND (r.body->>'verdict' IN ('happened', 'accepted', 'ambiguous') OR r.attempt_id LIKE 'f%-late-succeeded')`

const listEffectsSQL = `
SELECT ` + effectColumns + ` FROM listed e
 WHERE $15 = '' OR strpos(lower(concat_ws(' ', e.key, e.args::text, e.result::text, e.error::text)), lower($15)) > 0
 ORDER BY e.doubt DESC, e.created_at DESC, e.effect_id DESC LIMIT $16`

const beyondSQL = `
SELECT e.doubt, e.created_at, e.effect_id FROM listed e ORDER BY e.doubt DESC, e.created_at DESC, e.effect_id DESC OFFSET $9::bigint - 1`

// Effect implements tools.Reader.
func (s *Store) Effect(ctx context.Context, namespace, id string) (tools.Effect, error) {
	e, err := oneEffect(s.pool.Query(ctx, getEffectSQL, namespace, id))
	switch {
	case err != nil:
		return tools.Effect{}, err
	case e == nil:
		return tools.Effect{}, fmt.Errorf("effect %s: %w", id, tools.ErrNotFound)
	}
	var receipts string
	if err := s.pool.QueryRow(ctx, receiptsOfSQL, namespace, id).Scan(&receipts); err != nil {
		return tools.Effect{}, err
	}
	e.Receipts = json.RawMessage(receipts)
	return *e, nil
}

// listArgs are the first 14 of listedSQL.
func listArgs(f tools.Filter, depth int) []any {
	after := f.After
	if after == nil {
		after = &tools.Position{}
	}
	return []any{f.Namespace, f.State, f.Tool, string(f.RunID), f.After != nil, after.Doubt, after.CreatedAt, after.ID, depth,
		f.Key, since(f.From), since(f.To), f.Settled, f.HeldBy}
}

func since(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Effects implements tools.Reader.
func (s *Store) Effects(ctx context.Context, f tools.Filter) ([]tools.Effect, error) {
	depth := f.Limit
	if f.Text != "" {
		depth = tools.SearchDepth
	}
	found, err := collect[effectRow](s.pool.Query(ctx, listedSQL(f)+listEffectsSQL, append(listArgs(f, depth), f.Text, f.Limit)...))
	if err != nil {
		return nil, err
	}
	out := make([]tools.Effect, 0, len(found))
	for _, r := range found {
		e, err := r.effect()
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// Beyond implements tools.Ledger.
func (s *Store) Beyond(ctx context.Context, f tools.Filter) (*tools.Position, error) {
	found, err := collect[tools.Position](s.pool.Query(ctx, listedSQL(f)+beyondSQL, listArgs(f, tools.SearchDepth)...))
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}
