package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

// lookedSQL keeps a doubt that a lookup did not decide: with $5 it is left to
// that policy, else it is looked up again after $4.
const lookedSQL = `
UPDATE tools.effects SET probes = probes + 1, in_doubt = coalesce($5, in_doubt), error = coalesce($6::text::json, error),
	next_attempt_at = CASE WHEN $5::text IS NULL THEN clock_timestamp() + $4::bigint * interval '1 millisecond' END,
	wake_at = CASE WHEN $5::text IS NULL THEN clock_timestamp() + $4::bigint * interval '1 millisecond' END,
	updated_at = clock_timestamp()
WHERE effect_id = $1 AND epoch = $2 AND state = 'unknown' AND in_doubt = 'probe' AND settled_by IS NULL
  AND NOT EXISTS (SELECT 1 FROM tools.receipts r WHERE r.effect_id = $1 AND r.attempt_id = $3)`

// Looked implements tools.Probes. A repeat after a lost reply finds its own
// receipt.
func (s *Store) Looked(ctx context.Context, l tools.Look) (answered []tools.Call, mine bool, err error) {
	failure, err := problemText(l.Error)
	if err != nil {
		return nil, false, err
	}
	err = pg.Retry(ctx, func(ctx context.Context) error {
		return s.tx(ctx, func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, lookedSQL, l.EffectID, l.Epoch, l.ID, l.Wait.Milliseconds(), null(l.InDoubt), failure)
			if err != nil {
				return err
			}
			if mine = tag.RowsAffected() > 0; !mine {
				var n int
				if err := tx.QueryRow(ctx, recordedSQL, l.EffectID, l.ID).Scan(&n); err != nil {
					return err
				}
				if mine = n > 0; mine {
					answered, err = calls(tx.Query(ctx, effectCallsSQL, l.EffectID))
					return err
				}
			}
			if err := keepLook(ctx, tx, l, !mine); err != nil || !mine || l.InDoubt == "" {
				return err
			}
			answered, err = calls(tx.Query(ctx, answerAllSQL, l.EffectID, events.CallUnknown, l.Epoch, nil, failure, l.InDoubt, nil,
				string(l.CallID), l.Worker))
			return err
		})
	})
	return answered, mine, err
}

func keepLook(ctx context.Context, tx pgx.Tx, l tools.Look, late bool) error {
	receipt, err := marshalText(l.Receipt)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, receiptSQL, l.EffectID, l.ID, l.Epoch, l.Worker, late, *receipt)
	return err
}

const deniedSQL = `
SELECT count(*) FROM tools.receipts r
 WHERE r.effect_id = $1 AND r.body->>'probe' = 'not_happened' AND NOT r.late
   AND r.at >= (SELECT c.created_at FROM tools.calls c WHERE c.call_id = $2)`

// Denied implements tools.Probes.
func (s *Store) Denied(ctx context.Context, effectID string, call events.CallID) (n int, err error) {
	err = s.pool.QueryRow(ctx, deniedSQL, effectID, string(call)).Scan(&n)
	return n, err
}
