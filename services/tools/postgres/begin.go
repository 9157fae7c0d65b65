package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/services/tools"
)

// ownerDead is true when the worker %w of a claim may be taken over: its lease
// is over, its beat is old, ours is young and has been for a while. A statement
// that waited for a lock judges by old rows, and then our own beat is old too.
const (
	ownerDeadHead = `lease_until < clock_timestamp()
	AND NOT EXISTS (SELECT 1 FROM tools.workers o WHERE o.name = `
	ownerDeadTail = `.worker AND o.beat > clock_timestamp() - interval '1.5 s')
	AND EXISTS (SELECT 1 FROM tools.workers m WHERE m.name = $1
	            AND m.beat > clock_timestamp() - interval '0.9 s' AND m.fresh_since < clock_timestamp() - interval '2 s')`
)

// gateSQL looks at the yes in the statement that commits the intent. $2 says
// whether the call is gated, $3 names the approval, $4 the call, $5 what the
// yes must be bound to, $6 the namespace.
const gateSQL = `gate AS MATERIALIZED (
	SELECT CASE WHEN NOT $2::bool THEN 'open' ELSE coalesce((
		SELECT CASE WHEN r.digest <> $5::text THEN 'mismatch'
		            WHEN clock_timestamp() <= r.valid_until THEN 'open'
		            ELSE 'expired' END
		  FROM approvals.v_requests r
		 WHERE r.approval_id = $3::text AND r.call_id = $4::text AND r.namespace = $6::text
		   AND r.kind = 'action' AND r.decision = 'approved' AND r.unused_at IS NULL), 'missing') END AS says)`

// stopSQL looks at the stops in the statement that commits the intent, so that no
// replica needs to hear of one.
var stopSQL = `stop AS MATERIALIZED (` + standingOf(`s.stop_id`, `$6`, `$8`, `$10`) + `)`

// beginEffectSQL commits the intent, or, when a stop stands, an intent without an
// attempt that waits for its end. A key that was used before is taken only
// from the claim that the decision saw ($16 epoch, $17 attempt).
var beginEffectSQL = `
WITH ` + gateSQL + `, ` + stopSQL + `, effect AS (
	INSERT INTO tools.effects AS e (effect_id, namespace, tool, key, state, epoch, call_id, run_id, args, args_digest,
		attempt_id, worker, lease_until, attempts, doubted, held_by, next_attempt_at)
	SELECT $7::text, $6::text, $8::text, $9::text, 'intent', 1, $4::text, $10::text, $11::text::json, $12::text,
		CASE WHEN stop_id IS NULL THEN $13::text END, CASE WHEN stop_id IS NULL THEN $1::text END,
		CASE WHEN stop_id IS NULL THEN clock_timestamp() + $14::bigint * interval '1 millisecond' END,
		$15::int - (stop_id IS NOT NULL)::int, $18::bool, stop_id, CASE WHEN stop_id IS NOT NULL THEN clock_timestamp() END
	  FROM gate LEFT JOIN stop ON true WHERE says = 'open' AND ($16::bigint = 0 OR EXISTS (SELECT 1 FROM tools.effects x WHERE x.effect_id = $7::text))
	ON CONFLICT (namespace, tool, key) DO UPDATE SET
		state = 'intent', epoch = e.epoch + 1, attempt_id = excluded.attempt_id, worker = excluded.worker,
		lease_until = excluded.lease_until, attempts = excluded.attempts, doubted = excluded.doubted,
		call_id = CASE WHEN e.state = 'failed' THEN excluded.call_id ELSE e.call_id END,
		run_id = CASE WHEN e.state = 'failed' THEN excluded.run_id ELSE e.run_id END,
		held_by = excluded.held_by, next_attempt_at = excluded.next_attempt_at,
		reply_until = NULL, wake_at = NULL, in_doubt = NULL, result = NULL, error = NULL, settled_by = NULL,
		updated_at = clock_timestamp()
	WHERE e.epoch = $16::bigint AND coalesce(e.attempt_id, '') = $17::text AND e.args_digest = excluded.args_digest
	  AND e.state IN ('intent', 'failed')
	  AND (NOT $19::bool OR (e.` + ownerDeadHead + `e` + ownerDeadTail + `))
	RETURNING e.epoch, e.held_by)
SELECT gate.says, effect.epoch, coalesce(effect.held_by, '') FROM gate LEFT JOIN effect ON true`

// openCallSQL makes or keeps the call's row, while it is open, and says that an
// act begins.
const openCallSQL = `
INSERT INTO tools.calls AS c (call_id, run_id, namespace, tool, tool_digest, pool, args, args_digest, minted_key, key,
	approval, traceparent, effect_id, acting, rule, status)
VALUES ($1, $2, $3, $4, $5, $6, $7::text::json, $8, $9, $10, $11::text::json, $12, $13, $14, $15, 'open')
ON CONFLICT (call_id) DO UPDATE SET effect_id = excluded.effect_id, acting = c.acting OR excluded.acting,
	approval = coalesce(excluded.approval, c.approval), updated_at = clock_timestamp()
WHERE c.status = 'open'
RETURNING c.call_id`

const holdsAttemptSQL = `SELECT epoch FROM tools.effects WHERE effect_id = $1 AND attempt_id = $2 AND state = 'intent'`

// beginReadSQL claims a read on the call's own row.
const beginReadSQL = `
WITH ` + gateSQL + `, call AS (
	INSERT INTO tools.calls AS c (call_id, run_id, namespace, tool, tool_digest, pool, args, args_digest, minted_key, key,
		approval, traceparent, status, claim_epoch, attempt_id, worker, lease_until, attempts)
	SELECT $4::text, $10::text, $6::text, $8::text, $20::text, $21::text, $11::text::json, $12::text, $7::text, $9::text,
		$22::text::json, $18::text, 'open', 1, $13::text, $1::text, clock_timestamp() + $14::bigint * interval '1 millisecond', $15::int
	  FROM gate WHERE says = 'open'
	ON CONFLICT (call_id) DO UPDATE SET claim_epoch = c.claim_epoch + 1, attempt_id = excluded.attempt_id,
		worker = excluded.worker, lease_until = excluded.lease_until, attempts = excluded.attempts,
		next_attempt_at = NULL, wake_at = NULL, updated_at = clock_timestamp()
	WHERE c.status = 'open' AND c.claim_epoch = $16::bigint AND coalesce(c.attempt_id, '') = $17::text
	  AND (NOT $19::bool OR (c.` + ownerDeadHead + `c` + ownerDeadTail + `))
	RETURNING c.claim_epoch)
SELECT gate.says, call.claim_epoch FROM gate LEFT JOIN call ON true`

const holdsReadSQL = `SELECT claim_epoch FROM tools.calls WHERE call_id = $1 AND attempt_id = $2 AND status = 'open'`

// errGuard rolls a transaction back whose guard did not hold.
var errGuard = errors.New("guard lost")

// Begin implements tools.Store. A repeat after a lost reply finds its own
// attempt id and succeeds.
func (s *Store) Begin(ctx context.Context, b tools.Begin) (began tools.Began, err error) {
	asked := time.Now()
	// An attempt that was sent again may have been committed the first time.
	waited := sync.OnceValue(func() time.Duration { return time.Since(asked) })
	err = pg.Retry(ctx, func(ctx context.Context) error {
		if b.Read {
			began, err = s.beginRead(ctx, b)
		} else {
			began, err = s.beginEffect(ctx, b, func() { waited() })
			began.Waited = waited()
		}
		return err
	})
	return began, err
}

// beginEffect calls sending right before it sends what it commits.
func (s *Store) beginEffect(ctx context.Context, b tools.Begin, sending func()) (tools.Began, error) {
	var began tools.Began
	if plain(b) {
		switch did, err := s.open(ctx, b, sending); {
		case err != nil:
			return began, err
		case did == openedBegun:
			return tools.Began{Gate: tools.GateOpen, Epoch: 1}, nil
		case did == openedMissed:
			return s.mineAlready(ctx, tools.Began{Gate: tools.GateOpen}, holdsAttemptSQL, b.EffectID, b.AttemptID)
		}
	}
	err := s.keyedTx(ctx, func(tx pgx.Tx) error {
		sending()
		var epoch *int64
		err := tx.QueryRow(ctx, beginEffectSQL, b.Worker, b.Gated, approvalID(b.Call), string(b.Call.ID), string(b.Bind),
			b.Call.Namespace, b.EffectID, b.Call.Tool, b.Call.Key, string(b.Call.RunID), string(b.Call.Args), string(b.Call.ArgsDigest),
			b.AttemptID, b.Lease.Milliseconds(), b.From.Attempts+1, b.From.Epoch, b.From.AttemptID, b.Doubted, b.Takeover,
		).Scan(&began.Gate, &epoch, &began.Held)
		if err != nil {
			return err
		}
		if epoch == nil {
			return errGuard
		}
		began.Epoch = *epoch
		ok, err := openCall(ctx, tx, b.Call, b.EffectID, began.Held == "")
		if err == nil && !ok {
			return errGuard
		}
		if err == nil && began.Held == "" && b.Reply.Hash != "" {
			err = keepTicket(ctx, tx, b, began.Epoch)
		}
		if err == nil && began.Held != "" {
			_, err = tx.Exec(ctx, releaseCallSQL, string(b.Call.ID), b.Doubted)
		}
		return err
	})
	if !errors.Is(err, errGuard) {
		return began, err
	}
	began.Held = "" // rolled back
	return s.mineAlready(ctx, began, holdsAttemptSQL, b.EffectID, b.AttemptID)
}

func (s *Store) beginRead(ctx context.Context, b tools.Begin) (tools.Began, error) {
	var began tools.Began
	var epoch *int64
	approval, err := approvalText(b.Call)
	if err != nil {
		return began, err
	}
	err = s.keyed.One(ctx, beginReadSQL, []any{b.Worker, b.Gated, approvalID(b.Call), string(b.Call.ID), string(b.Bind),
		b.Call.Namespace, b.Call.MintedKey, b.Call.Tool, b.Call.Key, string(b.Call.RunID), string(b.Call.Args), string(b.Call.ArgsDigest),
		b.AttemptID, b.Lease.Milliseconds(), b.From.Attempts + 1, b.From.Epoch, b.From.AttemptID, b.Call.TraceParent, b.Takeover,
		string(b.Call.ToolDigest), b.Call.Pool, approval,
	}, &began.Gate, &epoch)
	if err != nil {
		return began, unstorable(err)
	}
	if epoch != nil {
		began.Epoch = *epoch
		return began, nil
	}
	return s.mineAlready(ctx, began, holdsReadSQL, string(b.Call.ID), b.AttemptID)
}

// mineAlready tells a lost claim from an earlier commit of the same attempt
// whose reply was lost.
func (s *Store) mineAlready(ctx context.Context, began tools.Began, query, id, attempt string) (tools.Began, error) {
	if began.Gate != tools.GateOpen {
		return began, nil
	}
	err := s.pool.QueryRow(ctx, query, id, attempt).Scan(&began.Epoch)
	if errors.Is(err, pgx.ErrNoRows) {
		began.Lost = true
		return began, nil
	}
	return began, err
}

func openCall(ctx context.Context, tx pgx.Tx, c tools.Call, effectID string, acting bool) (bool, error) {
	approval, err := approvalText(c)
	if err != nil {
		return false, err
	}
	var id string
	err = tx.QueryRow(ctx, openCallSQL, string(c.ID), string(c.RunID), c.Namespace, c.Tool, string(c.ToolDigest), c.Pool,
		string(c.Args), string(c.ArgsDigest), c.MintedKey, c.Key, approval, c.TraceParent, null(effectID), acting, c.Rule).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

func approvalID(c tools.Call) string {
	if c.Approval == nil {
		return ""
	}
	return string(c.Approval.ID)
}

func approvalText(c tools.Call) (*string, error) {
	if c.Approval == nil {
		return nil, nil
	}
	return marshalText(c.Approval)
}
