package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

const takeControlSQL = `
INSERT INTO tools.controls (id, call_id, run_id, action, verdict, principal, reason)
VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO NOTHING`

const applyControlSQL = `UPDATE tools.controls SET applied = true WHERE id = $1`

const appliedControlSQL = `SELECT applied FROM tools.controls WHERE id = $1`

const effectOfCallSQL = `SELECT coalesce(effect_id, '') FROM tools.calls WHERE call_id = $1`

const settleSQL = `
UPDATE tools.effects e SET state = $3, epoch = e.epoch + 1, result = $4::text::json, error = $5::text::json, in_doubt = $6,
	settled_by = $7, attempt_id = NULL, worker = NULL, lease_until = NULL, attempts = 0, doubted = ($3 = 'unknown'),
	next_attempt_at = NULL, wake_at = NULL, updated_at = clock_timestamp()
WHERE e.effect_id = $1 AND e.epoch = $2 AND e.state = 'unknown' AND e.settled_by IS NULL
RETURNING ` + effectColumns

// reopenCallsSQL lets calls act again whose effect did not happen.
const reopenCallsSQL = `
UPDATE tools.calls SET status = 'open', acting = false, error = NULL, in_doubt = NULL, result = NULL, updated_at = clock_timestamp()
WHERE effect_id = $1 AND status IN ('unknown', 'open')`

// oweSQL keeps a message until its receiver has it.
const oweSQL = `INSERT INTO tools.announcements (id, run_id, call_id, message) VALUES ($1, $2, $3, $4::text::json)`

// Settle implements tools.Controls. The epoch rises with every verdict, so an
// outcome that arrives after it is late and the answer is a new fact.
func (s *Store) Settle(ctx context.Context, v tools.Settle) (done tools.Settled, err error) {
	err = s.tx(ctx, func(tx pgx.Tx) error {
		done = tools.Settled{}
		tag, err := tx.Exec(ctx, takeControlSQL, v.ID, string(v.CallID), string(v.RunID), events.ControlSettle, v.Verdict, v.By, v.Reason)
		if err != nil {
			return err
		}
		done.Known = tag.RowsAffected() == 0
		id := v.EffectID
		if id == "" {
			err := tx.QueryRow(ctx, effectOfCallSQL, string(v.CallID)).Scan(&id)
			if err != nil && !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
		}
		if id == "" {
			return nil
		}
		if done.Effect, err = lockEffect(ctx, tx, id); err != nil || done.Effect == nil {
			return err
		}
		e := done.Effect
		switch {
		case done.Known:
			err = tx.QueryRow(ctx, appliedControlSQL, v.ID).Scan(&done.Applied)
		case e.Open() && (v.Epoch == 0 || v.Epoch == e.Claim.Epoch):
			done.Effect, err = settle(ctx, tx, *e, v)
			done.Applied = done.Effect != nil
		default:
			err = heal(ctx, tx, *e)
		}
		if err != nil {
			return err
		}
		if v.Look != nil {
			if err := keepLook(ctx, tx, *v.Look, !done.Applied || done.Known); err != nil {
				return err
			}
		}
		if done.Calls, err = calls(tx.Query(ctx, effectCallsSQL, id)); err != nil {
			return err
		}
		if v.Messages == nil || !done.Applied || done.Known {
			return nil
		}
		owed, err := v.Messages(done)
		if err != nil {
			return err
		}
		return owe(ctx, tx, owed)
	})
	return done, err
}

func settle(ctx context.Context, tx pgx.Tx, e tools.Effect, v tools.Settle) (*tools.Effect, error) {
	by := v.By
	if by == "" {
		by = "somebody"
	}
	to, inDoubt, result := tools.EffectSucceeded, "", v.Result
	var failure *events.Problem
	switch v.Verdict {
	case events.Happened:
		if len(result) == 0 {
			result = []byte(`{"note":"a person confirmed that it happened; its result is not known"}`)
		}
	case events.NotHappened:
		to, result = tools.EffectFailed, nil
		failure = &events.Problem{Code: tools.CodeNotHappened, Message: by + " says that it did not happen"}
	case events.GiveUp:
		to, inDoubt, result = tools.EffectUnknown, tools.DoubtFail, nil
		failure = &events.Problem{Code: tools.CodeUnknownOutcome, Message: "it may have happened; " + by + " gave up finding out"}
	}
	problem, err := problemText(failure)
	if err != nil {
		return nil, err
	}
	after, err := oneEffect(tx.Query(ctx, settleSQL, e.ID, e.Claim.Epoch, to, jsonText(result), problem, null(inDoubt), by))
	if err != nil || after == nil {
		return nil, errors.Join(err, errIf(after == nil, "effect %s changed under its lock", e.ID))
	}
	if _, err := tx.Exec(ctx, applyControlSQL, v.ID); err != nil {
		return nil, err
	}
	if to == tools.EffectFailed {
		_, err = tx.Exec(ctx, reopenCallsSQL, e.ID)
	} else {
		_, err = tx.Exec(ctx, answerAllSQL, e.ID, to, after.Claim.Epoch, jsonText(result), problem, null(inDoubt), by, string(e.CallID), nil)
	}
	return after, err
}

// heal answers calls that joined while the outcome became known.
func heal(ctx context.Context, tx pgx.Tx, e tools.Effect) error {
	if e.State != tools.EffectSucceeded && !(e.State == tools.EffectUnknown && !e.Open()) {
		return nil
	}
	failure, err := problemText(e.Error)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, answerAllSQL, e.ID, e.State, e.Claim.Epoch, jsonText(e.Result), failure, null(e.InDoubt),
		null(e.SettledBy), string(e.CallID), nil)
	return err
}

func errIf(bad bool, format string, args ...any) error {
	if !bad {
		return nil
	}
	return fmt.Errorf(format, args...)
}

func owe(ctx context.Context, tx pgx.Tx, owed []events.Message) error {
	for _, m := range owed {
		text, err := marshalText(m)
		if err != nil {
			return err
		}
		run, _ := events.CallID(m.About).Run()
		if _, err := tx.Exec(ctx, oweSQL, m.ID, string(run), m.About, *text); err != nil {
			return err
		}
	}
	return nil
}

// revokeSQL takes a call back, or leaves a row that a later call finds.
const revokeSQL = `
INSERT INTO tools.calls AS c (call_id, run_id, namespace, tool, tool_digest, pool, args, args_digest, minted_key, key,
	traceparent, status, error)
VALUES ($1, $2, $3, '', '', 'default', 'null', '', '', '', $4, 'revoked', $5::text::json)
ON CONFLICT (call_id) DO UPDATE SET status = 'revoked', error = excluded.error, epoch = 0, wake_at = NULL,
	next_attempt_at = NULL, updated_at = clock_timestamp()
WHERE c.status = 'open' AND NOT c.acting
RETURNING ` + callColumns

// closeRevokedSQL ends an intent that waits for its next attempt, has surely
// not happened and has no other call that wants it.
const closeRevokedSQL = `
UPDATE tools.effects e SET state = 'failed', error = $2::text::json, next_attempt_at = NULL, wake_at = NULL, updated_at = clock_timestamp()
WHERE e.effect_id = $1 AND e.state = 'intent' AND e.attempt_id IS NULL AND NOT e.doubted
  AND NOT EXISTS (SELECT 1 FROM tools.calls c WHERE c.effect_id = $1 AND c.status = 'open')`

// inheritSQL hands an intent that waits for its next attempt from the call that
// opened it to the oldest of those that want the same: only the opener begins.
const inheritSQL = `
UPDATE tools.effects e
   SET call_id = heir.call_id, run_id = heir.run_id, wake_at = coalesce(e.wake_at, e.next_attempt_at), updated_at = clock_timestamp()
  FROM (SELECT c.call_id, c.run_id FROM tools.calls c WHERE c.effect_id = $1 AND c.status = 'open' ORDER BY c.created_at, c.call_id LIMIT 1) heir
 WHERE e.effect_id = $1 AND e.call_id = $2 AND e.state = 'intent' AND e.attempt_id IS NULL`

// Revoke implements tools.Controls.
func (s *Store) Revoke(ctx context.Context, id string, c events.ControlTool, namespace, traceParent string) (out tools.Call, err error) {
	reason := "the run took the call back before it began"
	if c.Reason != "" {
		reason += ": " + strings.ReplaceAll(c.Reason, "\x00", "\uFFFD")
	}
	failure, err := problemText(&events.Problem{Code: tools.CodeRevoked, Message: reason})
	if err != nil {
		return tools.Call{}, err
	}
	err = s.tx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, takeControlSQL, id, string(c.CallID), string(c.RunID), events.ControlRevoke, "", c.By, c.Reason); err != nil {
			return err
		}
		var effect string
		err := tx.QueryRow(ctx, effectOfCallSQL, string(c.CallID)).Scan(&effect)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if effect != "" {
			if _, err := lockEffect(ctx, tx, effect); err != nil {
				return err
			}
		}
		revoked, err := oneCall(tx.Query(ctx, revokeSQL, string(c.CallID), string(c.RunID), namespace, traceParent, failure))
		if err != nil {
			return err
		}
		if revoked == nil {
			found, err := getCall(ctx, tx, c.CallID)
			if err == nil && found == nil {
				err = tools.ErrRunDeleted // nothing else keeps the row away
			}
			if err != nil {
				return err
			}
			out = *found
			return nil
		}
		out = *revoked
		if _, err := tx.Exec(ctx, applyControlSQL, id); err != nil {
			return err
		}
		if out.EffectID == "" {
			return nil
		}
		if _, err := tx.Exec(ctx, inheritSQL, out.EffectID, string(c.CallID)); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, closeRevokedSQL, out.EffectID, failure)
		return err
	})
	return out, err
}

const rejectSQL = `
INSERT INTO tools.rejected (stream, stream_seq, message_id, subject, code, reason, body) VALUES ($1, $2, $3, $4, $5, $6, $7)`

// Reject implements tools.Controls.
func (s *Store) Reject(ctx context.Context, m events.Received, code string, err error) error {
	clean := func(t string) string { return strings.ToValidUTF8(strings.ReplaceAll(t, "\x00", "\uFFFD"), "\uFFFD") }
	_, xerr := s.pool.Exec(ctx, rejectSQL, m.Stream, int64(m.StreamSeq), clean(m.ID), clean(m.Subject), code, clean(err.Error()), []byte(m.Data))
	return xerr
}
