package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/tools"
)

// loadEffectSQL finds an effect by the hash of its key. By namespace, tool and key there
// would be two indexes to choose from, and a plan that was made for an empty table, where
// both cost the same, may read a whole namespace later.
const loadEffectSQL = `SELECT ` + effectColumns + ` FROM tools.effects e WHERE e.effect_id = $1`

// loadBeatsSQL reads the clock, the beat of whoever holds the claim and our
// own, as seconds. A beat of -infinity belongs to a worker that stopped.
const loadBeatsSQL = `
WITH owner AS (
	SELECT e.worker FROM tools.effects e WHERE e.effect_id = $1 AND e.worker IS NOT NULL
	UNION ALL
	SELECT c.worker FROM tools.calls c WHERE c.call_id = $2 AND c.worker IS NOT NULL
	LIMIT 1
), beats AS (
	SELECT w.name,
	       CASE WHEN w.beat = '-infinity' THEN 1e9 ELSE extract(epoch FROM clock_timestamp() - w.beat)::float8 END AS age,
	       extract(epoch FROM clock_timestamp() - w.fresh_since)::float8 AS fresh_for
	  FROM tools.workers w
)
SELECT clock_timestamp(), o.age, o.fresh_for, m.age, m.fresh_for
  FROM (SELECT 1) one
  LEFT JOIN beats o ON o.name = (SELECT worker FROM owner)
  LEFT JOIN beats m ON m.name = $3`

const executesSQL = `SELECT kind, name, digest FROM runner.v_runs WHERE run_id = $1 AND namespace = $2`

const runDeletedSQL = `SELECT EXISTS (SELECT FROM runner.v_deleted WHERE run_id = $1)`

type beatsRow struct {
	Now                time.Time
	OwnerAge, OwnerFor *float64
	SelfAge, SelfFor   *float64
}

// Load implements tools.Store. Its reads are not one snapshot; what is decided
// on them is guarded when it is written.
func (s *Store) Load(ctx context.Context, c events.CallTool, key, worker string) (tools.State, error) {
	var st tools.State
	var beats beatsRow
	effectID := tools.EffectID(c.Namespace, c.Tool, key)
	b := &pgx.Batch{}
	b.Queue(getCallSQL, string(c.CallID)).Query(func(rows pgx.Rows) (err error) {
		st.Call, err = oneCall(rows, nil)
		return err
	})
	b.Queue(loadEffectSQL, effectID).Query(func(rows pgx.Rows) (err error) {
		st.Effect, err = oneEffect(rows, nil)
		return err
	})
	b.Queue(loadBeatsSQL, effectID, string(c.CallID), worker).Query(func(rows pgx.Rows) (err error) {
		beats, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[beatsRow])
		return err
	})
	b.Queue(executesSQL, string(c.RunID), c.Namespace).QueryRow(func(row pgx.Row) error {
		err := row.Scan(&st.Executes.Kind, &st.Executes.Name, &st.Executes.Digest)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	b.Queue(runDeletedSQL, string(c.RunID)).QueryRow(func(row pgx.Row) error { return row.Scan(&st.RunDeleted) })
	if err := s.keyed.Send(ctx, b); err != nil {
		return tools.State{}, err
	}
	st.Now = beats.Now.UTC()
	st.Owner, st.Self = beat(beats.OwnerAge, beats.OwnerFor), beat(beats.SelfAge, beats.SelfFor)
	return st, nil
}

func beat(age, freshFor *float64) tools.Beat {
	if age == nil || freshFor == nil {
		return tools.Beat{}
	}
	return tools.Beat{Known: true, Age: seconds(*age), FreshFor: seconds(*freshFor)}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

const runFactsSQL = `
SELECT run_id, namespace, name, labels::text, input::text, coalesce(trigger::text, '{}'), coalesce(principal, ''),
       model_calls, CASE kind WHEN 'flow' THEN 0 ELSE tool_calls END, tokens, cost_micro_usd
  FROM runner.v_runs WHERE run_id = $1`

type factsRow struct {
	ID, Namespace, Agent, Labels, Input, Trigger, Principal string
	ModelCalls, ToolCalls, Tokens, Cost                     int64
}

// RunFacts implements tools.Store.
func (s *Store) RunFacts(ctx context.Context, run events.RunID) (*spec.RunFacts, error) {
	found, err := collect[factsRow](s.pool.Query(ctx, runFactsSQL, string(run)))
	if err != nil || len(found) == 0 {
		return nil, err
	}
	r := found[0]
	f := &spec.RunFacts{
		ID: r.ID, Namespace: r.Namespace, Agent: r.Agent, Input: json.RawMessage(r.Input), Principal: r.Principal,
		ModelCalls: r.ModelCalls, ToolCalls: r.ToolCalls, Tokens: r.Tokens, Cost: r.Cost,
	}
	if err := json.Unmarshal([]byte(r.Labels), &f.Labels); err != nil {
		return nil, fmt.Errorf("labels of run %s: %w", run, err)
	}
	if err := json.Unmarshal([]byte(r.Trigger), &f.Trigger); err != nil {
		return nil, fmt.Errorf("trigger of run %s: %w", run, err)
	}
	return f, nil
}

const holdsEffectSQL = `SELECT count(*) FROM tools.effects WHERE effect_id = $1 AND epoch = $2 AND attempt_id = $3 AND state = 'intent'`
const holdsCallSQL = `SELECT count(*) FROM tools.calls WHERE call_id = $1 AND claim_epoch = $2 AND attempt_id = $3 AND status = 'open'`

// Holds implements tools.Store.
func (s *Store) Holds(ctx context.Context, a tools.Attempt) (bool, error) {
	var n int
	var err error
	if a.EffectID == "" {
		err = s.keyed.One(ctx, holdsCallSQL, []any{string(a.CallID), a.Epoch, a.ID}, &n)
	} else {
		err = s.keyed.One(ctx, holdsEffectSQL, []any{a.EffectID, a.Epoch, a.ID}, &n)
	}
	return n > 0, err
}

// answeredSQL also finds the calls that were attached to the effect which the
// call opened: its outcome answered them.
const answeredSQL = `
SELECT ` + callColumns + ` FROM tools.calls c
 WHERE (c.call_id = $1 OR c.effect_id = (SELECT e.effect_id FROM tools.effects e
          WHERE e.effect_id = (SELECT x.effect_id FROM tools.calls x WHERE x.call_id = $1) AND e.call_id = $1))
   AND c.status <> 'open'
 ORDER BY c.call_id LIMIT 10000`

// Answered implements tools.Store.
func (s *Store) Answered(ctx context.Context, id events.CallID) ([]tools.Call, error) {
	return calls(s.pool.Query(ctx, answeredSQL, string(id)))
}
