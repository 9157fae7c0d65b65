package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/holdfast-run/holdfast/services/tools"
)

const getEffectSQL = `SELECT ` + effectColumns + ` FROM tools.effects e WHERE e.namespace = $1 AND e.effect_id = $2`

const receiptsOfSQL = `SELECT receipts::text FROM tools.v_effects WHERE namespace = $1 AND effect_id = $2`

// listEffectsSQL lists doubts that nobody has settled first, then the newest. Of a
// run it lists what the run and all that it started did.
const listEffectsSQL = `
WITH RECURSIVE tree AS (
	SELECT $4::text AS run_id WHERE $4 <> ''
	 UNION SELECT r.run_id FROM runner.v_runs r JOIN tree t ON r.parent_run_id = t.run_id WHERE r.namespace = $1
)
SELECT ` + effectColumns + `
  FROM tools.effects e
 WHERE e.namespace = $1
   AND ($2 = '' OR CASE WHEN e.state <> 'intent' THEN e.state WHEN e.held_by IS NOT NULL THEN 'held' WHEN e.attempt_id IS NOT NULL AND e.reply_until IS NOT NULL THEN 'awaiting' ELSE e.state END = $2) AND ($3 = '' OR e.tool = $3)
   AND ($4 = '' OR e.effect_id IN (SELECT c.effect_id FROM tools.calls c JOIN tree USING (run_id) WHERE c.effect_id IS NOT NULL)
        OR (e.on_doubt IS NOT NULL AND e.run_id IN (SELECT run_id FROM tree)))
   AND (NOT $5::bool OR ((e.state = 'unknown' AND e.settled_by IS NULL), e.created_at, e.effect_id) < ($6::bool, $7::timestamptz, $8::text))
 ORDER BY (e.state = 'unknown' AND e.settled_by IS NULL) DESC, e.created_at DESC, e.effect_id DESC
 LIMIT $9`

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

// Effects implements tools.Reader.
func (s *Store) Effects(ctx context.Context, f tools.Filter) ([]tools.Effect, error) {
	after := f.After
	if after == nil {
		after = &tools.Position{}
	}
	found, err := collect[effectRow](s.pool.Query(ctx, listEffectsSQL, f.Namespace, f.State, f.Tool, string(f.RunID),
		f.After != nil, after.Doubt, after.CreatedAt, after.ID, f.Limit))
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
