package postgres

import (
	"cmp"
	"context"
	"fmt"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// The row is appended to what is there, unread. Its claim goes: nobody works on
// the run any more. Nothing else of the run is touched, so that it goes on where it
// was once its rows are repaired.
const parkDamaged = `
WITH run AS (
    UPDATE runner.runs SET seq = seq + 1, status = 'needs_attention', waiting = $4, error = $5::json, updated_at = clock_timestamp(),
        claim_worker = NULL, claim_cause = NULL, claim_at = NULL, claim_epoch = claim_epoch + CASE WHEN claim_worker IS NULL THEN 0 ELSE 1 END
    WHERE run_id = $1 AND seq = $2 AND ended_at IS NULL AND status <> 'needs_attention'
    RETURNING run_id, namespace, seq, updated_at AS at),
entry AS (
    INSERT INTO runner.journal (run_id, seq, kind, status, cause, inbound, worker, at, data)
    SELECT run_id, seq, 'needs_attention', 'needs_attention', 'damaged:' || $2::bigint, false, $3, at, $6::json FROM run),
noticed AS (
    INSERT INTO runner.notices (notice_id, namespace, channel, body)
    SELECT $7::text, namespace, $8::text, $9::text::json FROM run WHERE $8::text <> '' ON CONFLICT DO NOTHING)
SELECT namespace, seq, at FROM run`

// ParkDamaged implements runner.Store.
func (s *Store) ParkDamaged(ctx context.Context, id events.RunID, d *runner.DamagedError, worker string, tell *events.Notice) (runner.Fact, string, error) {
	problem := d.Problem()
	body := events.Ending{Error: &problem}
	f := runner.Fact{Kind: events.FactAttention, Status: events.StatusAttention, Cause: fmt.Sprintf("damaged:%d", d.Seq), Worker: worker, Data: []byte(marshalText(body))}
	var namespace, channel, said string
	var notice events.NoticeID
	if tell != nil {
		notice, channel, said = tell.NoticeID, tell.Channel, marshalText(tell)
	}
	err := s.pool.QueryRow(ctx, parkDamaged, string(id), d.Seq, worker, problem.Message, marshalText(problem), string(f.Data), string(notice), channel, cmp.Or(said, "null")).Scan(&namespace, &f.Seq, &f.At)
	return f, namespace, conflict(id, err)
}
