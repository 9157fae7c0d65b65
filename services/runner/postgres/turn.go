package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/services/runner"
)

// The row of the model is locked by the booking, so the moments are handed out
// in the order of asking. What the run has kept is its own until it is used, and
// is used by asking within the last five seconds: a call that is lost then books
// another. An abandoned moment passes.
const takeTurn = `
WITH kept AS (
    SELECT at FROM runner.model_turns
    WHERE run_id = $1 AND namespace = $2 AND model = $3 AND at > clock_timestamp() - interval '10 s'),
booked AS (
    INSERT INTO runner.model_rates AS r (namespace, model, last_at, requests_free, tokens_free)
    SELECT $2, $3, n.at, n.at + $4::bigint * interval '1 microsecond', n.at + $5::bigint * interval '1 microsecond'
    FROM (SELECT clock_timestamp() AS at) n WHERE NOT EXISTS (SELECT FROM kept)
    ON CONFLICT (namespace, model) DO UPDATE SET
        last_at = greatest(clock_timestamp(), r.last_at, r.requests_free, r.tokens_free),
        requests_free = greatest(clock_timestamp(), r.last_at, r.requests_free, r.tokens_free) + $4::bigint * interval '1 microsecond',
        tokens_free = greatest(clock_timestamp(), r.last_at, r.requests_free, r.tokens_free) + $5::bigint * interval '1 microsecond'
    RETURNING last_at AS at),
turn AS MATERIALIZED (
    SELECT at, clock_timestamp() AS now FROM (SELECT at FROM kept UNION ALL SELECT at FROM booked) t),
keep AS (
    INSERT INTO runner.model_turns (run_id, namespace, model, at)
    SELECT $1, $2, $3, at FROM turn WHERE at > now + interval '5 s'
    ON CONFLICT (run_id) DO UPDATE SET namespace = excluded.namespace, model = excluded.model, at = excluded.at),
used AS (
    DELETE FROM runner.model_turns WHERE run_id = $1 AND EXISTS (SELECT FROM turn WHERE at <= now + interval '5 s'))
SELECT at, (extract(epoch FROM at - now) * 1000000)::bigint, at > now + interval '5 s' FROM turn`

// TakeTurn implements runner.Turns.
func (s *Store) TakeTurn(ctx context.Context, t runner.ModelTurn) (out runner.TurnTime, err error) {
	var micros int64
	err = s.pool.QueryRow(ctx, takeTurn, string(t.RunID), t.Namespace, t.Model, t.Request.Microseconds(), t.Tokens.Microseconds()).Scan(&out.At, &micros, &out.Later)
	if err != nil {
		return runner.TurnTime{}, fmt.Errorf("take a turn of model %s for run %s: %w", t.Model, t.RunID, err)
	}
	out.Wait = max(0, time.Duration(micros)*time.Microsecond)
	return out, nil
}

// What a call did not use is free at once, but a booking never comes before
// last_at.
const settleTurn = `
UPDATE runner.model_rates SET tokens_free = tokens_free + $3::bigint * interval '1 microsecond'
WHERE namespace = $1 AND model = $2`

// SettleTurn implements runner.Turns.
func (s *Store) SettleTurn(ctx context.Context, t runner.ModelTurn, more time.Duration) error {
	if _, err := s.pool.Exec(ctx, settleTurn, t.Namespace, t.Model, more.Microseconds()); err != nil {
		return fmt.Errorf("settle a turn of model %s: %w", t.Model, err)
	}
	return nil
}
