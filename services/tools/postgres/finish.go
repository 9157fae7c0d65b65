package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

// wakeSlack is how long a sweep leaves a call alone whose message is expected
// to come back by itself.
const wakeSlack = 15 * time.Second

// finishEffectSQL records an outcome. A late one of the epoch in force also
// settles a doubt that nobody has settled.
const finishEffectSQL = `
UPDATE tools.effects SET state = $4,
	attempt_id = CASE WHEN $4 = 'intent' THEN NULL ELSE attempt_id END,
	worker = CASE WHEN $4 = 'intent' THEN NULL ELSE worker END,
	lease_until = CASE WHEN $4 = 'intent' THEN NULL ELSE lease_until END,
	doubted = $5, in_doubt = $6, result = $7::text::json, error = $8::text::json,
	next_attempt_at = CASE WHEN $4 = 'intent' OR $6 = 'probe' THEN clock_timestamp() + $9::bigint * interval '1 millisecond' END,
	wake_at = CASE WHEN $4 = 'intent' OR $6 = 'probe' THEN clock_timestamp() + $10::bigint * interval '1 millisecond' END,
	probe_since = CASE WHEN $6 = 'probe' THEN clock_timestamp() END, probes = 0,
	acted_at = CASE WHEN $11 THEN clock_timestamp() ELSE acted_at END, attempts = attempts - $12::int,
	updated_at = clock_timestamp()
WHERE effect_id = $1 AND epoch = $2 AND attempt_id = $3
  AND (state = 'intent' OR (state = 'unknown' AND settled_by IS NULL AND $4 IN ('succeeded', 'failed')))`

const receiptSQL = `
INSERT INTO tools.receipts (effect_id, attempt_id, epoch, worker, late, body)
SELECT e.effect_id, $2, $3, $4, $5, $6::text::json FROM tools.effects e WHERE e.effect_id = $1
ON CONFLICT (effect_id, attempt_id) DO NOTHING`

// postponedSQL finds an attempt that asked nobody, and left no receipt.
const postponedSQL = `SELECT count(*) FROM tools.effects WHERE effect_id = $1 AND epoch = $2 AND attempt_id IS NULL AND state = 'intent'`

const recordedSQL = `SELECT count(*) FROM tools.receipts WHERE effect_id = $1 AND attempt_id = $2 AND NOT late`

// answerAllSQL answers every call that waits for an effect. $8 is the call that
// acted; the others have their answer from the ledger.
const answerAllSQL = `
UPDATE tools.calls c SET status = $2, epoch = $3, result = $4::text::json, error = $5::text::json, in_doubt = $6,
	settled_by = $7, acting = false, replayed = (c.call_id <> $8), answered_by = $9, updated_at = clock_timestamp()
WHERE c.effect_id = $1 AND c.status IN ('open', 'unknown')
RETURNING ` + callColumns

const releaseCallSQL = `UPDATE tools.calls SET acting = $2, updated_at = clock_timestamp() WHERE call_id = $1 AND status = 'open'`

const effectCallsSQL = `SELECT ` + callColumns + ` FROM tools.calls c WHERE c.effect_id = $1 ORDER BY c.call_id LIMIT 10000`

const finishReadSQL = `
UPDATE tools.calls c SET status = $4, epoch = c.claim_epoch, result = $5::text::json, error = $6::text::json,
	attempt_id = CASE WHEN $4 = 'open' THEN NULL ELSE c.attempt_id END,
	worker = CASE WHEN $4 = 'open' THEN NULL ELSE c.worker END, answered_by = $7,
	next_attempt_at = CASE WHEN $4 = 'open' THEN clock_timestamp() + $8::bigint * interval '1 millisecond' END,
	attempts = c.attempts - $10::int,
	wake_at = CASE WHEN $4 = 'open' THEN clock_timestamp() + $9::bigint * interval '1 millisecond' END,
	updated_at = clock_timestamp()
WHERE c.call_id = $1 AND c.claim_epoch = $2 AND c.attempt_id = $3 AND c.status = 'open'
RETURNING ` + callColumns

const finishedReadSQL = `SELECT ` + callColumns + ` FROM tools.calls c WHERE c.call_id = $1 AND c.claim_epoch = $2 AND c.attempt_id = $3 AND c.status <> 'open'`

// Finish implements tools.Store.
func (s *Store) Finish(ctx context.Context, f tools.Finish) (answered []tools.Call, mine bool, err error) {
	err = pg.Retry(ctx, func(ctx context.Context) error {
		if f.EffectID == "" {
			answered, mine, err = s.finishRead(ctx, f)
		} else {
			answered, mine, err = s.finishEffect(ctx, f)
		}
		return err
	})
	return answered, mine, err
}

func (s *Store) finishEffect(ctx context.Context, f tools.Finish) (answered []tools.Call, mine bool, err error) {
	if final(f) {
		did, err := s.outcomes.Do(ctx, f)
		if err != nil || len(did.answered) > 0 {
			return did.answered, len(did.answered) > 0, unstorable(err)
		}
	}
	con := f.Conclusion
	failure, err := problemText(con.Error)
	if err != nil {
		return nil, false, err
	}
	receipt, err := marshalText(f.Receipt)
	if err != nil {
		return nil, false, err
	}
	err = s.keyedTx(ctx, func(tx pgx.Tx) error {
		if con.Awaits {
			mine, answered, err = await(ctx, tx, f, *receipt)
			return err
		}
		due := wake(con)
		tag, err := tx.Exec(ctx, finishEffectSQL, f.EffectID, f.Epoch, f.ID, con.State, con.Doubted, null(con.InDoubt),
			jsonText(f.Result), failure, con.Wait.Milliseconds(), due, f.Acted, unasked(con))
		if err != nil {
			return err
		}
		if mine = tag.RowsAffected() > 0; !mine {
			var n int
			if con.Unasked {
				err := tx.QueryRow(ctx, postponedSQL, f.EffectID, f.Epoch).Scan(&n)
				mine = n > 0
				return err
			}
			if err := tx.QueryRow(ctx, recordedSQL, f.EffectID, f.ID).Scan(&n); err != nil {
				return err
			}
			if n > 0 { // an earlier commit of ours whose reply was lost
				mine = true
				answered, err = calls(tx.Query(ctx, effectCallsSQL, f.EffectID))
				return err
			}
			if mine, answered, err = replied(ctx, tx, f, *receipt); err != nil || mine {
				return err
			}
		}
		if !con.Unasked {
			if _, err := tx.Exec(ctx, receiptSQL, f.EffectID, f.ID, f.Epoch, f.Worker, !mine, *receipt); err != nil || !mine {
				return err
			}
		}
		if con.State == tools.EffectIntent {
			_, err := tx.Exec(ctx, releaseCallSQL, string(f.CallID), con.Doubted)
			return err
		}
		if con.InDoubt == tools.DoubtProbe { // the calls wait for what the lookup says
			return nil
		}
		if err := keepArtifacts(ctx, tx, f.CallID, f.Artifacts); err != nil {
			return err
		}
		answered, err = calls(tx.Query(ctx, answerAllSQL, f.EffectID, con.State, f.Epoch, jsonText(f.Result), failure,
			null(con.InDoubt), nil, string(f.CallID), f.Worker))
		return err
	})
	return answered, mine, err
}

// wake is when a sweep takes the call, in milliseconds: at once when it is due,
// unless a message comes back by itself.
func wake(c tools.Conclusion) int64 {
	if c.Wait <= 5*time.Second && c.InDoubt != tools.DoubtProbe && !c.Unasked {
		return (c.Wait + wakeSlack).Milliseconds()
	}
	return c.Wait.Milliseconds()
}

// unasked is the number of attempts that do not count.
func unasked(c tools.Conclusion) int {
	if c.Unasked {
		return 1
	}
	return 0
}

func (s *Store) finishRead(ctx context.Context, f tools.Finish) ([]tools.Call, bool, error) {
	failure, err := problemText(f.Conclusion.Error)
	if err != nil {
		return nil, false, err
	}
	status := f.Conclusion.State
	if status == tools.EffectIntent {
		status = "open"
	}
	record := func(q querier) ([]tools.Call, error) {
		return calls(q.Query(ctx, finishReadSQL, string(f.CallID), f.Epoch, f.ID, status, jsonText(f.Result), failure,
			f.Worker, f.Conclusion.Wait.Milliseconds(), wake(f.Conclusion), unasked(f.Conclusion)))
	}
	var got []tools.Call
	if len(f.Artifacts) == 0 {
		got, err = record(s.pool)
	} else {
		err = s.tx(ctx, func(tx pgx.Tx) error {
			if got, err = record(tx); err != nil || len(got) == 0 {
				return err
			}
			return keepArtifacts(ctx, tx, f.CallID, f.Artifacts)
		})
	}
	if err == nil && len(got) == 0 {
		got, err = calls(s.pool.Query(ctx, finishedReadSQL, string(f.CallID), f.Epoch, f.ID))
	}
	return got, len(got) > 0, unstorable(err)
}

// doubtSQL gives an intent up that the decision saw ($3 epoch, $4 attempt).
const doubtSQL = `
UPDATE tools.effects e SET state = 'unknown', in_doubt = $5, error = $6::text::json, doubted = true,
	next_attempt_at = CASE WHEN $5 = 'probe' THEN clock_timestamp() + $8::bigint * interval '1 millisecond' END,
	wake_at = CASE WHEN $5 = 'probe' THEN clock_timestamp() + $8::bigint * interval '1 millisecond' END,
	probe_since = CASE WHEN $5 = 'probe' THEN clock_timestamp() END, probes = 0, updated_at = clock_timestamp()
WHERE e.effect_id = $2 AND e.epoch = $3 AND coalesce(e.attempt_id, '') = $4 AND e.state = 'intent'
  AND (NOT $7::bool OR (e.` + ownerDeadHead + `e` + ownerDeadTail + `))`

// Doubt implements tools.Store. The attempt stays named, so that its outcome
// can still settle the doubt.
func (s *Store) Doubt(ctx context.Context, d tools.Doubt) (answered []tools.Call, ok bool, err error) {
	failure, err := problemText(d.Error)
	if err != nil {
		return nil, false, err
	}
	err = s.tx(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, doubtSQL, d.Worker, d.EffectID, d.From.Epoch, d.From.AttemptID, d.InDoubt, failure, d.Takeover, d.LookIn.Milliseconds())
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return errGuard
		}
		if _, err := openCall(ctx, tx, d.Call, d.EffectID, false); err != nil || d.InDoubt == tools.DoubtProbe {
			return err
		}
		answered, err = calls(tx.Query(ctx, answerAllSQL, d.EffectID, events.CallUnknown, d.From.Epoch, nil, failure,
			d.InDoubt, nil, string(d.Call.ID), d.Worker))
		return err
	})
	if errors.Is(err, errGuard) {
		return nil, false, nil
	}
	return answered, err == nil, err
}

const closeSQL = `
UPDATE tools.effects e SET state = 'failed', error = $4::text::json, attempt_id = NULL, worker = NULL, lease_until = NULL,
	next_attempt_at = NULL, wake_at = NULL, updated_at = clock_timestamp()
WHERE e.effect_id = $1 AND e.epoch = $2 AND coalesce(e.attempt_id, '') = $3 AND e.state = 'intent' AND NOT e.doubted`

// Close implements tools.Store.
func (s *Store) Close(ctx context.Context, c tools.Close) (answered []tools.Call, ok bool, err error) {
	failure, err := problemText(c.Answer.Error)
	if err != nil {
		return nil, false, err
	}
	err = s.tx(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, closeSQL, c.EffectID, c.From.Epoch, c.From.AttemptID, failure)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return errGuard
		}
		if _, err := tx.Exec(ctx, releaseCallSQL, string(c.Call.ID), false); err != nil {
			return err
		}
		a := c.Answer
		a.Epoch = c.From.Epoch
		own, err := answerCall(ctx, tx, c.Call, a)
		if err != nil {
			return err
		}
		answered, err = calls(tx.Query(ctx, answerAllSQL, c.EffectID, events.CallFailed, c.From.Epoch, nil, failure, nil, nil, string(c.Call.ID), nil))
		answered = append(answered, own)
		return err
	})
	if errors.Is(err, errGuard) {
		return nil, false, nil
	}
	return answered, err == nil, err
}

// dueSQL takes due effects, one open call of each: the one that opened it
// first of all.
const dueSQL = `
WITH due AS (
	SELECT effect_id FROM tools.effects WHERE wake_at <= (SELECT clock_timestamp()) ORDER BY wake_at LIMIT $1 FOR UPDATE SKIP LOCKED
), taken AS (
	UPDATE tools.effects e SET wake_at = clock_timestamp() + interval '30 s' FROM due WHERE e.effect_id = due.effect_id
	RETURNING e.effect_id, e.call_id
)
SELECT ` + callColumns + ` FROM taken CROSS JOIN LATERAL (
	SELECT * FROM tools.calls x WHERE x.effect_id = taken.effect_id AND x.status = 'open'
	 ORDER BY x.call_id = taken.call_id DESC, x.call_id LIMIT 1) c`

const dueReadsSQL = `
WITH due AS (
	SELECT call_id FROM tools.calls WHERE wake_at <= (SELECT clock_timestamp()) ORDER BY wake_at LIMIT $1 FOR UPDATE SKIP LOCKED
)
UPDATE tools.calls c SET wake_at = CASE WHEN c.status = 'open' THEN clock_timestamp() + interval '30 s' END
  FROM due WHERE c.call_id = due.call_id
RETURNING ` + callColumns

// Due implements tools.Store.
func (s *Store) Due(ctx context.Context, limit int) ([]tools.Call, error) {
	if _, err := s.pool.Exec(ctx, releaseSQL, limit); err != nil {
		return nil, err
	}
	effects, err := calls(s.pool.Query(ctx, dueSQL, limit))
	if err != nil {
		return nil, err
	}
	reads, err := calls(s.pool.Query(ctx, dueReadsSQL, limit))
	if err != nil {
		return nil, err
	}
	turns, err := calls(s.pool.Query(ctx, dueTurnsSQL, limit))
	return append(append(effects, reads...), turns...), err
}
