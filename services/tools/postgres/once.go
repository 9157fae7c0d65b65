package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

// A takeover of a program's act waits this much longer than its lease.
const onceGrace = `interval '2 s'`

const clockSQL = `SELECT clock_timestamp()`

// openOnceSQL takes a key that was never used, unless a stop stands.
var openOnceSQL = `
INSERT INTO tools.effects AS e (effect_id, namespace, tool, key, state, epoch, call_id, run_id, args, args_digest,
	attempt_id, worker, lease_until, attempts, on_doubt)
SELECT $1::text, $2::text, $3::text, $4::text, 'intent', 1, '', $5::text, $6::text::json, $7::text, 'f1', $8::text,
	clock_timestamp() + $9::bigint * interval '1 millisecond', 1, $10::text
 WHERE NOT EXISTS (` + standingOf(`1`, `$2`, `$3`, `$5`) + `)
ON CONFLICT (namespace, tool, key) DO NOTHING
RETURNING ` + effectColumns

// takeOnceSQL opens the next epoch of a key: after an act that surely did not
// happen, or, when both policies say retry, after one that may have. $2 is the
// epoch and $3 the state that the decision saw.
var takeOnceSQL = `
UPDATE tools.effects e SET state = 'intent', epoch = e.epoch + 1, attempt_id = 'f' || (e.epoch + 1), worker = $4,
	lease_until = clock_timestamp() + $5::bigint * interval '1 millisecond',
	attempts = CASE WHEN e.state = 'failed' THEN 1 ELSE e.attempts + 1 END, doubted = $6, on_doubt = $7, run_id = $8,
	call_id = '', in_doubt = NULL, result = NULL, error = NULL, settled_by = NULL, next_attempt_at = NULL, wake_at = NULL,
	updated_at = clock_timestamp()
WHERE e.effect_id = $1 AND e.epoch = $2 AND e.state = $3 AND e.on_doubt IS NOT NULL AND e.args_digest = $9
  AND (e.state = 'failed'
       OR (e.on_doubt = 'retry' AND $7 = 'retry' AND e.settled_by IS NULL
           AND (e.state = 'unknown' OR (e.state = 'intent' AND e.lease_until + ` + onceGrace + ` < clock_timestamp()))))
  AND NOT EXISTS (` + standingOf(`1`, `e.namespace`, `e.tool`, `$8`) + `)
RETURNING ` + effectColumns

// lapseOnceSQL gives an act up whose lease is over.
const lapseOnceSQL = `
UPDATE tools.effects e SET state = 'unknown', in_doubt = $3, error = $4::text::json, updated_at = clock_timestamp()
WHERE e.effect_id = $1 AND e.epoch = $2 AND e.state = 'intent' AND e.on_doubt IS NOT NULL
  AND e.lease_until + ` + onceGrace + ` < clock_timestamp()`

// lapseDueSQL does the same for whatever is due and may not be repeated.
const lapseDueSQL = `
WITH due AS (
	SELECT namespace, tool, key FROM tools.effects
	 WHERE state = 'intent' AND on_doubt IN ('ask', 'fail') AND lease_until < clock_timestamp() - ` + onceGrace + `
	 ORDER BY lease_until LIMIT $2 FOR UPDATE SKIP LOCKED
)
UPDATE tools.effects e SET state = 'unknown', in_doubt = e.on_doubt, error = $1::text::json, updated_at = clock_timestamp()
  FROM due WHERE e.namespace = due.namespace AND e.tool = due.tool AND e.key = due.key
RETURNING ` + effectColumns

// renewOnceSQL never shortens a lease.
const renewOnceSQL = `
UPDATE tools.effects e SET lease_until = greatest(e.lease_until, clock_timestamp() + $4::bigint * interval '1 millisecond'),
	updated_at = clock_timestamp()
WHERE e.namespace = $1 AND e.effect_id = $2 AND e.epoch = $3 AND e.state = 'intent' AND e.on_doubt IS NOT NULL
RETURNING ` + effectColumns

// recordOnceSQL records the outcome of the fence in force, once: the lease ends
// with it. After an earlier attempt that may have happened a failure leaves the
// effect unknown. The receipt is kept in the same statement.
const recordOnceSQL = `
WITH e AS (
	UPDATE tools.effects x SET
		state = CASE WHEN $4 = 'failed' AND x.doubted THEN 'unknown' ELSE $4 END,
		in_doubt = CASE WHEN $4 = 'failed' AND x.doubted THEN (CASE x.on_doubt WHEN 'fail' THEN 'fail' ELSE 'ask' END) END,
		result = $5::text::json, error = $6::text::json, acted_at = clock_timestamp(), lease_until = NULL,
		updated_at = clock_timestamp()
	 WHERE x.namespace = $1 AND x.effect_id = $2 AND x.epoch = $3 AND x.on_doubt IS NOT NULL AND x.lease_until IS NOT NULL
	   AND (x.state = 'intent' OR (x.state = 'unknown' AND x.settled_by IS NULL))
	RETURNING x.*
), kept AS (
	INSERT INTO tools.receipts (effect_id, attempt_id, epoch, worker, late, body)
	SELECT e.effect_id, 'f' || e.epoch, e.epoch, coalesce(e.worker, ''), false, $7::text::json FROM e
	ON CONFLICT (effect_id, attempt_id) DO NOTHING
)
SELECT ` + effectColumns + ` FROM e`

const outcomeOnceSQL = `SELECT coalesce(body->>'outcome', '') FROM tools.receipts WHERE effect_id = $1 AND attempt_id = $2 AND NOT late`

// lateOnceSQL keeps one late receipt for each fence and status.
const lateOnceSQL = `
INSERT INTO tools.receipts (effect_id, attempt_id, epoch, worker, late, body)
SELECT e.effect_id, $3, $4, coalesce(e.worker, ''), true, $5::text::json
  FROM tools.effects e WHERE e.namespace = $1 AND e.effect_id = $2 AND e.on_doubt IS NOT NULL
ON CONFLICT (effect_id, attempt_id) DO NOTHING`

// expireKeysSQL keeps the key and the digest of the arguments, nothing else. The clock is
// read once: only what stands still is a place in an index, and else all of it is read.
const expireKeysSQL = `
WITH old AS (
	SELECT namespace, tool, key FROM tools.effects
	 WHERE updated_at < (SELECT clock_timestamp()) - $1::bigint * interval '1 second'
	   AND (state IN ('succeeded', 'failed') OR (state = 'unknown' AND settled_by IS NOT NULL))
	 ORDER BY updated_at LIMIT $2 FOR UPDATE SKIP LOCKED
), gone AS (
	UPDATE tools.effects e SET state = 'expired', args = 'null', result = NULL, error = NULL, in_doubt = NULL, attempt_id = NULL,
		worker = NULL, lease_until = NULL, next_attempt_at = NULL, wake_at = NULL, updated_at = clock_timestamp()
	  FROM old WHERE e.namespace = old.namespace AND e.tool = old.tool AND e.key = old.key
	RETURNING e.effect_id
), forgotten AS (
	DELETE FROM tools.receipts r USING gone WHERE r.effect_id = gone.effect_id
), unanswerable AS (
	DELETE FROM tools.replies r USING gone WHERE r.effect_id = gone.effect_id
)
SELECT count(*) FROM gone`

var _ tools.OnceStore = (*Store)(nil)

// LoadOnce implements tools.OnceStore. The clock is read before the row: a
// lease that is over by it is over by the row's next reader too.
func (s *Store) LoadOnce(ctx context.Context, namespace, tool, key string) (e *tools.Effect, now time.Time, err error) {
	b := &pgx.Batch{}
	b.Queue(clockSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&now) })
	b.Queue(loadEffectSQL, tools.EffectID(namespace, tool, key)).Query(func(rows pgx.Rows) (err error) {
		e, err = oneEffect(rows, nil)
		return err
	})
	if err := s.pool.SendBatch(ctx, b).Close(); err != nil {
		return nil, time.Time{}, err
	}
	return e, now.UTC(), nil
}

// TakeOnce implements tools.OnceStore.
func (s *Store) TakeOnce(ctx context.Context, o tools.Once, digest events.Digest, from *tools.Effect, doubted bool) (*tools.Effect, error) {
	id := tools.EffectID(o.Namespace, o.Tool, o.Key)
	if from == nil {
		e, err := oneEffect(s.pool.Query(ctx, openOnceSQL, id, o.Namespace, o.Tool, o.Key, string(o.RunID), string(o.Args),
			string(digest), o.Holder, o.Lease.Milliseconds(), o.OnDoubt))
		return e, unstorable(err)
	}
	e, err := oneEffect(s.pool.Query(ctx, takeOnceSQL, id, from.Claim.Epoch, from.State, o.Holder, o.Lease.Milliseconds(),
		doubted, o.OnDoubt, string(o.RunID), string(digest)))
	return e, unstorable(err)
}

// LapseOnce implements tools.OnceStore.
func (s *Store) LapseOnce(ctx context.Context, id string, epoch int64, inDoubt string, why *events.Problem) (bool, error) {
	text, err := problemText(why)
	if err != nil {
		return false, err
	}
	tag, err := s.pool.Exec(ctx, lapseOnceSQL, id, epoch, inDoubt, text)
	return err == nil && tag.RowsAffected() > 0, err
}

// LapseDue implements tools.OnceStore.
func (s *Store) LapseDue(ctx context.Context, why *events.Problem, limit int) ([]tools.Effect, error) {
	text, err := problemText(why)
	if err != nil {
		return nil, err
	}
	found, err := collect[effectRow](s.pool.Query(ctx, lapseDueSQL, text, limit))
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

// RenewOnce implements tools.OnceStore.
func (s *Store) RenewOnce(ctx context.Context, namespace, id string, fence int64, lease time.Duration) (*tools.Effect, error) {
	return oneEffect(s.pool.Query(ctx, renewOnceSQL, namespace, id, fence, lease.Milliseconds()))
}

// onceReceipt is what a receipt of a program holds.
type onceReceipt struct {
	Status  string          `json:"status"`
	Outcome events.Digest   `json:"outcome"`
	Receipt json.RawMessage `json:"receipt,omitempty"`
	Error   *events.Problem `json:"error,omitempty"`
}

func onceReceiptText(r tools.OnceRecord) (*string, error) {
	return marshalText(onceReceipt{Status: r.Status, Outcome: r.Outcome(), Receipt: r.Receipt, Error: r.Error})
}

// RecordOnce implements tools.OnceStore. A repeat after a lost reply is told by
// its caller, from the outcome that is stored.
func (s *Store) RecordOnce(ctx context.Context, r tools.OnceRecord) (e *tools.Effect, err error) {
	failure, err := problemText(r.Error)
	if err != nil {
		return nil, err
	}
	receipt, err := onceReceiptText(r)
	if err != nil {
		return nil, err
	}
	err = pg.Retry(ctx, func(ctx context.Context) error {
		e, err = oneEffect(s.pool.Query(ctx, recordOnceSQL, r.Namespace, r.EffectID, r.Fence, r.Status, jsonText(r.Result), failure, *receipt))
		return err
	})
	return e, unstorable(err)
}

// OutcomeOnce implements tools.OnceStore.
func (s *Store) OutcomeOnce(ctx context.Context, id string, fence int64) (events.Digest, error) {
	var d string
	err := s.pool.QueryRow(ctx, outcomeOnceSQL, id, fmt.Sprintf("f%d", fence)).Scan(&d)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return events.Digest(d), err
}

// KeepLate implements tools.OnceStore.
func (s *Store) KeepLate(ctx context.Context, r tools.OnceRecord) error {
	receipt, err := onceReceiptText(r)
	if err != nil {
		return err
	}
	_, err = s.pool.Exec(ctx, lateOnceSQL, r.Namespace, r.EffectID, fmt.Sprintf("f%d-late-%s", r.Fence, r.Status), r.Fence, *receipt)
	return unstorable(err)
}

// ExpireKeys implements tools.OnceStore.
func (s *Store) ExpireKeys(ctx context.Context, age time.Duration, limit int) (n int, err error) {
	err = s.pool.QueryRow(ctx, expireKeysSQL, int64(age/time.Second), limit).Scan(&n)
	return n, err
}
