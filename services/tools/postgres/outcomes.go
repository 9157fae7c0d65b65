package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/services/tools"
)

// settled are the calls that an outcome answered; none: it was missed, or nobody waits.
type settled struct{ answered []tools.Call }

// final says that an outcome is of the kind that is merged with others: it ends its
// effect and answers the calls.
func final(f tools.Finish) bool {
	return f.EffectID != "" && len(f.Artifacts) == 0 && f.Conclusion.InDoubt == "" && !f.Conclusion.Awaits && !f.Conclusion.Unasked &&
		(f.Conclusion.State == tools.EffectSucceeded || f.Conclusion.State == tools.EffectFailed)
}

// numberedCall is a call and the item that it belongs to, from one.
type numberedCall struct {
	N int
	callRow
}

// newOutcomes merges the outcomes of different effects. One that answers no call is looked
// at alone: it may be late, or its own first commit whose reply was lost.
func newOutcomes(s *Store) *pg.Group[tools.Finish, settled] {
	return &pg.Group[tools.Finish, settled]{
		Name:  "tools.outcomes",
		Key:   func(f tools.Finish) string { return f.EffectID },
		Bytes: func(f tools.Finish) int { return 2 * len(f.Result) },
		Many:  s.settleMany,
	}
}

// settleManySQL records outcomes and keeps their receipts, as finishEffectSQL and
// receiptSQL do for one. The effects come in the order of their ids and are locked in it;
// LIMIT tells the planner that they are few.
const settleManySQL = `
WITH effect AS (
	UPDATE tools.effects e SET state = i.state, doubted = i.doubted, in_doubt = NULL, result = i.result::json, error = i.error::json,
		next_attempt_at = NULL, wake_at = NULL, probe_since = NULL, probes = 0,
		acted_at = CASE WHEN i.acted THEN clock_timestamp() ELSE e.acted_at END, updated_at = clock_timestamp()
	  FROM (SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::bool[], $6::text[], $7::text[], $8::bool[], $9::text[], $10::text[])
			WITH ORDINALITY AS u(effect_id, epoch, attempt_id, state, doubted, result, error, acted, worker, receipt, n) LIMIT $11) i
	 WHERE e.effect_id = i.effect_id AND e.epoch = i.epoch AND e.attempt_id = i.attempt_id
	   AND (e.state = 'intent' OR (e.state = 'unknown' AND e.settled_by IS NULL))
	RETURNING e.effect_id, i.attempt_id, e.epoch, i.worker, i.receipt
)
INSERT INTO tools.receipts (effect_id, attempt_id, epoch, worker, late, body)
SELECT e.effect_id, e.attempt_id, e.epoch, e.worker, false, e.receipt::json FROM effect e
 WHERE NOT EXISTS (SELECT FROM tools.receipts r WHERE r.effect_id = e.effect_id AND r.attempt_id = e.attempt_id)`

// answerManySQL answers the calls that wait for what settleManySQL has settled, as
// answerAllSQL does for one. It is a statement of its own: it must see the calls that were
// attached while the other waited for their effects.
const answerManySQL = `
UPDATE tools.calls c SET status = e.state, epoch = e.epoch, result = e.result, error = e.error, in_doubt = NULL,
	settled_by = NULL, acting = false, replayed = (c.call_id <> i.call_id), answered_by = i.worker, updated_at = clock_timestamp()
  FROM (SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[])
		WITH ORDINALITY AS u(effect_id, epoch, attempt_id, state, worker, call_id, n) LIMIT $7) i
  JOIN tools.effects e ON e.effect_id = i.effect_id AND e.epoch = i.epoch AND e.attempt_id = i.attempt_id AND e.state = i.state
 WHERE c.effect_id = e.effect_id AND c.status IN ('open', 'unknown')
RETURNING i.n::int, ` + callColumns

func (s *Store) settleMany(ctx context.Context, all []tools.Finish) ([]settled, error) {
	var effects, attempts, states, workers, ids, receipts []string
	var epochs []int64
	var doubted, acted []bool
	var results, failures []*string
	for _, f := range all {
		failure, err := problemText(f.Conclusion.Error)
		if err != nil {
			return nil, err
		}
		receipt, err := marshalText(f.Receipt)
		if err != nil {
			return nil, err
		}
		effects, epochs, attempts, states = append(effects, f.EffectID), append(epochs, f.Epoch), append(attempts, f.ID), append(states, f.Conclusion.State)
		doubted, results, failures, acted = append(doubted, f.Conclusion.Doubted), append(results, jsonText(f.Result)), append(failures, failure), append(acted, f.Acted)
		workers, ids, receipts = append(workers, f.Worker), append(ids, string(f.CallID)), append(receipts, *receipt)
	}
	out := make([]settled, len(all))
	q := &pgx.Batch{}
	q.Queue(settleManySQL, effects, epochs, attempts, states, doubted, results, failures, acted, workers, receipts, len(all))
	q.Queue(answerManySQL, effects, epochs, attempts, states, workers, ids, len(all)).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[numberedCall])
		if err != nil {
			return err
		}
		for _, r := range found {
			c, err := r.call()
			if err != nil {
				return err
			}
			out[r.N-1].answered = append(out[r.N-1].answered, c)
		}
		return nil
	})
	return out, s.keyed.Send(ctx, q)
}
