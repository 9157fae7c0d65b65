package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/tools"
)

// loadEffectSQL finds an effect by the hash of its key. By namespace, tool and key there
// would be two indexes to choose from, and a plan that was made for an empty table, where
// both cost the same, may read a whole namespace later.
const loadEffectSQL = `SELECT ` + effectColumns + ` FROM tools.effects e WHERE e.effect_id = $1`

// lookCallsSQL and lookEffectsSQL find the calls and effects of many looks; each in a
// subquery of its own, so that it is found by its key, however many are asked for.
const (
	lookCallsSQL = `SELECT i.n::int, ` + callColumns + ` FROM unnest($1::text[]) WITH ORDINALITY AS i(id, n)
	CROSS JOIN LATERAL (SELECT * FROM tools.calls x WHERE x.call_id = i.id LIMIT 1) c`
	lookEffectsSQL = `SELECT i.n::int, ` + effectColumns + ` FROM unnest($1::text[]) WITH ORDINALITY AS i(id, n)
	CROSS JOIN LATERAL (SELECT * FROM tools.effects x WHERE x.effect_id = i.id LIMIT 1) e`
)

// lookAroundSQL reads the clock, the beat of whoever holds the claim and our own, as
// seconds, and what the run executes. A beat of -infinity belongs to a worker that
// stopped.
const lookAroundSQL = `
WITH beats AS MATERIALIZED (
	SELECT w.name,
	       CASE WHEN w.beat = '-infinity' THEN 1e9 ELSE extract(epoch FROM clock_timestamp() - w.beat)::float8 END AS age,
	       extract(epoch FROM clock_timestamp() - w.fresh_since)::float8 AS fresh_for
	  FROM tools.workers w
)
SELECT i.n::int, clock_timestamp(), o.age, o.fresh_for, m.age, m.fresh_for, coalesce(r.kind, ''), coalesce(r.name, ''), coalesce(r.digest, ''),
       d.run_id IS NOT NULL
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[]) WITH ORDINALITY AS i(effect_id, call_id, run_id, namespace, worker, n)
  LEFT JOIN LATERAL (
	SELECT b.* FROM beats b WHERE b.name = coalesce(
		(SELECT e.worker FROM tools.effects e WHERE e.effect_id = i.effect_id AND e.worker IS NOT NULL LIMIT 1),
		(SELECT c.worker FROM tools.calls c WHERE c.call_id = i.call_id AND c.worker IS NOT NULL LIMIT 1)) LIMIT 1) o ON true
  LEFT JOIN LATERAL (SELECT b.* FROM beats b WHERE b.name = i.worker LIMIT 1) m ON true
  LEFT JOIN LATERAL (SELECT x.namespace, x.kind, x.name, x.digest FROM runner.v_runs x WHERE x.run_id = i.run_id LIMIT 1) r ON r.namespace = i.namespace
  LEFT JOIN LATERAL (SELECT x.run_id FROM runner.v_deleted x WHERE x.run_id = i.run_id LIMIT 1) d ON true`

// look is what one call's decision looks at.
type look struct {
	call     events.CallTool
	effectID string
	worker   string
}

// looked is what it saw; err is of the read, which is not tried again here.
type looked struct {
	state tools.State
	err   error
}

// newLooks merges the looks of different calls.
func newLooks(s *Store) *pg.Group[look, looked] {
	return &pg.Group[look, looked]{
		Name: "tools.looks", Key: func(l look) string { return string(l.call.CallID) }, Repeats: true,
		Many: func(ctx context.Context, all []look) ([]looked, error) { return s.lookMany(ctx, all), nil },
	}
}

type numberedEffect struct {
	N int
	effectRow
}

type aroundRow struct {
	N                  int
	Now                time.Time
	OwnerAge, OwnerFor *float64
	SelfAge, SelfFor   *float64
	Kind, Name, Digest string
	RunDeleted         bool
}

// Load implements tools.Store. Its reads are not one snapshot; what is decided
// on them is guarded when it is written.
func (s *Store) Load(ctx context.Context, c events.CallTool, key, worker string) (tools.State, error) {
	saw, err := s.looks.Do(ctx, look{c, tools.EffectID(c.Namespace, c.Tool, key), worker})
	if err == nil {
		err = saw.err
	}
	return saw.state, err
}

func (s *Store) lookMany(ctx context.Context, all []look) []looked {
	var effects, ids, runs, namespaces, workers []string
	for _, l := range all {
		effects, ids, runs = append(effects, l.effectID), append(ids, string(l.call.CallID)), append(runs, string(l.call.RunID))
		namespaces, workers = append(namespaces, l.call.Namespace), append(workers, l.worker)
	}
	out := make([]looked, len(all))
	b := &pgx.Batch{}
	b.Queue(lookCallsSQL, ids).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[numberedCall])
		for _, r := range found {
			to := &out[r.N-1]
			c, err := r.call()
			to.state.Call, to.err = &c, err
		}
		return err
	})
	b.Queue(lookEffectsSQL, effects).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[numberedEffect])
		for _, r := range found {
			to := &out[r.N-1]
			e, err := r.effect()
			to.state.Effect, to.err = &e, cmp.Or(to.err, err)
		}
		return err
	})
	b.Queue(lookAroundSQL, effects, ids, runs, namespaces, workers).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[aroundRow])
		for _, r := range found {
			st := &out[r.N-1].state
			st.Now, st.RunDeleted = r.Now.UTC(), r.RunDeleted
			st.Owner, st.Self = beat(r.OwnerAge, r.OwnerFor), beat(r.SelfAge, r.SelfFor)
			st.Executes = events.Ref{Kind: r.Kind, Name: r.Name, Digest: events.Digest(r.Digest)}
		}
		return err
	})
	if err := s.keyed.Send(ctx, b); err != nil {
		for i := range out {
			out[i] = looked{err: err}
		}
	}
	return out
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
