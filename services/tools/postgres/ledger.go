package postgres

import (
	"context"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

var _ tools.Ledger = (*Store)(nil)

const toolNamesSQL = `WITH RECURSIVE ` + namesOfTools + ` SELECT tool FROM names WHERE tool IS NOT NULL ORDER BY tool LIMIT 500`

// totalsSQL counts what is open by the indexes of what is open, and the rest of
// the span by its time: now(), whose value the planner knows, or it reads all of them.
const totalsSQL = `
SELECT (SELECT count(*) FROM tools.effects e WHERE e.namespace = $1 AND e.state = 'unknown' AND e.settled_by IS NULL),
       (SELECT count(*) FROM tools.effects e WHERE e.namespace = $1 AND e.state = 'intent' AND e.held_by IS NULL),
       (SELECT count(*) FROM tools.effects e WHERE e.namespace = $1 AND e.state = 'intent' AND e.held_by IS NOT NULL),
       (SELECT count(DISTINCT r.effect_id) FROM tools.receipts r WHERE ` + mayBeTwice + `
           AND EXISTS (SELECT 1 FROM tools.effects e WHERE e.effect_id = r.effect_id AND e.namespace = $1)),
       day.happened, day.not_happened,
       (SELECT count(*) FROM tools.v_spared c WHERE c.namespace = $1 AND c.replayed AND c.status = 'succeeded' AND c.at >= now() - $2::bigint * interval '1 second'),
       (SELECT count(*) FROM tools.v_spared c WHERE c.namespace = $1 AND c.status = 'mismatch' AND c.at >= now() - $2::bigint * interval '1 second')
  FROM (SELECT count(*) FILTER (WHERE e.state = 'succeeded') AS happened, count(*) FILTER (WHERE e.state = 'failed') AS not_happened
          FROM tools.effects e WHERE e.namespace = $1 AND e.created_at >= now() - $2::bigint * interval '1 second') day`

const marksSQL = `
SELECT k.effect_id,
       EXISTS (SELECT 1 FROM tools.receipts r WHERE r.effect_id = k.effect_id AND ` + mayBeTwice + `),
       (SELECT count(*) FROM tools.calls c WHERE c.effect_id = k.effect_id),
       coalesce(c.approval->>'by', ''), coalesce(c.approval->>'id', ''),
       coalesce((SELECT q.approval_id FROM approvals.v_requests q
                  WHERE q.run_id = k.run_id AND q.call_id = k.call_id AND q.kind = 'doubt' AND q.state = 'pending' ORDER BY q.created_at DESC LIMIT 1), ''),
       coalesce((SELECT r.name FROM runner.v_runs r WHERE r.run_id = k.run_id AND r.namespace = $4), '')
  FROM unnest($1::text[], $2::text[], $3::text[]) k(effect_id, call_id, run_id)
  LEFT JOIN tools.calls c ON c.call_id = k.call_id
 ORDER BY k.effect_id`

const sharersSQL = `
SELECT c.call_id, c.run_id, c.status, c.epoch, c.call_id = e.call_id, c.replayed, coalesce(c.approval->>'by', ''), coalesce(c.approval->>'id', ''),
       coalesce(r.name, ''), coalesce(r.status, ''), c.created_at, c.updated_at
  FROM tools.effects e
  JOIN tools.calls c ON c.effect_id = e.effect_id
  LEFT JOIN runner.v_runs r ON r.run_id = c.run_id AND r.namespace = e.namespace
 WHERE e.namespace = $1 AND e.effect_id = $2
 ORDER BY c.created_at, c.call_id LIMIT $3`

// verdictsSQL finds them by the calls of the effect, which is how a question
// names what it was about, and by what a door writes without a call.
const verdictsSQL = `
SELECT v.verdict, v.principal, v.reason, v.applied, v.taken_at
  FROM tools.controls v
 WHERE v.action = 'settle'
   AND v.run_id IN (SELECT c.run_id FROM tools.calls c WHERE c.effect_id = $2 UNION SELECT e.run_id FROM tools.effects e WHERE e.effect_id = $2)
   AND (v.id LIKE 'resolve:' || $2::text || ':%' OR v.call_id IN (SELECT c.call_id FROM tools.calls c WHERE c.effect_id = $2))
   AND EXISTS (SELECT 1 FROM tools.effects e WHERE e.namespace = $1 AND e.effect_id = $2)
 ORDER BY v.taken_at, v.id LIMIT 100`

// tollSQL counts runs of an agent with all that they started, and effects by the
// run that opened them.
const tollSQL = `
WITH RECURSIVE runs AS (
	SELECT r.run_id FROM runner.v_runs r WHERE $2 <> 'tool' AND r.namespace = $1 AND r.ended_at IS NULL AND ($2 = 'all' OR r.name = $3)
	 UNION SELECT r.run_id FROM runner.v_runs r JOIN runs t ON r.parent_run_id = t.run_id WHERE $2 = 'agent' AND r.namespace = $1 AND r.ended_at IS NULL
), met AS (
	SELECT e.attempt_id FROM tools.effects e
	 WHERE e.namespace = $1 AND e.state = 'intent' AND e.held_by IS NULL
	   AND ($2 = 'all' OR ($2 = 'tool' AND e.tool = $3) OR ($2 = 'agent' AND e.run_id IN (SELECT run_id FROM runs)))
)
SELECT (SELECT count(*) FROM runs), (SELECT count(*) FROM met WHERE attempt_id IS NOT NULL), (SELECT count(*) FROM met WHERE attempt_id IS NULL)`

// Tools implements tools.Ledger.
func (s *Store) Tools(ctx context.Context, namespace string) ([]string, error) {
	found, err := collect[struct{ Name string }](s.pool.Query(ctx, toolNamesSQL, namespace))
	if err != nil {
		return nil, err
	}
	out := make([]string, 0, len(found))
	for _, f := range found {
		out = append(out, f.Name)
	}
	return out, nil
}

// Totals implements tools.Ledger.
func (s *Store) Totals(ctx context.Context, namespace string) (t tools.Totals, err error) {
	err = s.pool.QueryRow(ctx, totalsSQL, namespace, int64(tools.TotalsSpan/time.Second)).Scan(&t.InDoubt, &t.UnderWay, &t.Held, &t.Twice, &t.Happened, &t.Not, &t.Prevented, &t.Refused)
	return t, err
}

// Marks implements tools.Ledger.
func (s *Store) Marks(ctx context.Context, effects []tools.Effect) (map[string]tools.Mark, error) {
	out := make(map[string]tools.Mark, len(effects))
	if len(effects) == 0 {
		return out, nil
	}
	var ids, calls, runs []string
	for _, e := range effects {
		ids, calls, runs = append(ids, e.ID), append(calls, string(e.CallID)), append(runs, string(e.RunID))
	}
	type markRow struct {
		ID    string
		Twice bool
		Calls int64
		By    string
		YesID string
		Asked string
		Run   string
	}
	found, err := collect[markRow](s.pool.Query(ctx, marksSQL, ids, calls, runs, effects[0].Namespace))
	if err != nil {
		return nil, err
	}
	for _, m := range found {
		out[m.ID] = tools.Mark{Twice: m.Twice, Calls: m.Calls, YesBy: m.By, YesID: events.ApprovalID(m.YesID), QuestionID: events.ApprovalID(m.Asked), RunName: m.Run}
	}
	return out, nil
}

// Sharers implements tools.Ledger.
func (s *Store) Sharers(ctx context.Context, namespace, effectID string, limit int) ([]tools.Sharer, error) {
	return collect[tools.Sharer](s.pool.Query(ctx, sharersSQL, namespace, effectID, limit))
}

// Verdicts implements tools.Ledger.
func (s *Store) Verdicts(ctx context.Context, namespace, effectID string) ([]tools.Verdicted, error) {
	return collect[tools.Verdicted](s.pool.Query(ctx, verdictsSQL, namespace, effectID))
}

// Toll implements tools.Ledger.
func (s *Store) Toll(ctx context.Context, namespace, scope, name string) (t tools.Toll, err error) {
	err = s.pool.QueryRow(ctx, tollSQL, namespace, scope, name).Scan(&t.Runs, &t.UnderWay, &t.Waiting)
	return t, err
}
