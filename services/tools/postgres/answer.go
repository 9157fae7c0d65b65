package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/services/tools"
)

// answerSQL answers a call that has no act under way, or whose effect, which is
// locked, says what became of it.
const answerSQL = `
INSERT INTO tools.calls AS c (call_id, run_id, namespace, tool, tool_digest, pool, args, args_digest, minted_key, key,
	approval, traceparent, effect_id, status, epoch, result, error, in_doubt, replayed)
VALUES ($1, $2, $3, $4, $5, $6, $7::text::json, $8, $9, $10, $11::text::json, $12, $13, $14, $15, $16::text::json, $17::text::json, $18, $19)
ON CONFLICT (call_id) DO UPDATE SET effect_id = coalesce(excluded.effect_id, c.effect_id), status = excluded.status,
	epoch = excluded.epoch, result = excluded.result, error = excluded.error, in_doubt = excluded.in_doubt,
	replayed = excluded.replayed, acting = false, wake_at = NULL, next_attempt_at = NULL, updated_at = clock_timestamp()
WHERE c.status = 'open' AND (NOT c.acting OR excluded.effect_id IS NOT NULL)
RETURNING ` + callColumns

// Answer implements tools.Store. A call that was answered before is returned
// as it stands.
func (s *Store) Answer(ctx context.Context, c tools.Call, a tools.Answer) (out tools.Call, ok bool, err error) {
	err = s.tx(ctx, func(tx pgx.Tx) error {
		if a.EffectID != "" {
			e, err := lockEffect(ctx, tx, a.EffectID)
			if err != nil {
				return err
			}
			if e == nil || e.State != a.Status || e.Claim.Epoch != a.Epoch {
				return errGuard
			}
		}
		out, err = answerCall(ctx, tx, c, a)
		return err
	})
	if errors.Is(err, errGuard) {
		return tools.Call{}, false, nil
	}
	return out, err == nil, err
}

func answerCall(ctx context.Context, tx pgx.Tx, c tools.Call, a tools.Answer) (tools.Call, error) {
	approval, err := approvalText(c)
	if err != nil {
		return tools.Call{}, err
	}
	failure, err := problemText(a.Error)
	if err != nil {
		return tools.Call{}, err
	}
	out, err := oneCall(tx.Query(ctx, answerSQL, string(c.ID), string(c.RunID), c.Namespace, c.Tool, string(c.ToolDigest), c.Pool,
		string(c.Args), string(c.ArgsDigest), c.MintedKey, c.Key, approval, c.TraceParent, null(a.EffectID),
		a.Status, a.Epoch, jsonText(a.Result), failure, null(a.InDoubt), a.Replayed))
	if err == nil && out == nil {
		out, err = getCall(ctx, tx, c.ID)
	}
	switch {
	case err != nil:
		return tools.Call{}, err
	case out == nil:
		return tools.Call{}, fmt.Errorf("call %s vanished", c.ID)
	}
	return *out, nil
}

// Attach implements tools.Store. The effect is locked, so that its outcome
// either sees the call or is seen.
func (s *Store) Attach(ctx context.Context, c tools.Call, effectID string) (bool, error) {
	err := s.tx(ctx, func(tx pgx.Tx) error {
		e, err := lockEffect(ctx, tx, effectID)
		if err != nil {
			return err
		}
		if e == nil || e.State != tools.EffectIntent && !e.Probing() {
			return errGuard
		}
		ok, err := openCall(ctx, tx, c, effectID, false)
		if err == nil && !ok {
			return errGuard
		}
		return err
	})
	if errors.Is(err, errGuard) {
		return false, nil
	}
	return err == nil, err
}
