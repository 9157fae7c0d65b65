package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

var _ tools.Replies = (*Store)(nil)

// keepTicketSQL keeps the address of an attempt's reply with its intent. Those
// of earlier attempts stay good only when they are attempts of one act.
const keepTicketSQL = `
WITH older AS (
	UPDATE tools.replies SET live = false WHERE effect_id = $2 AND live AND token_hash <> $1 AND NOT ($7 AND $8 AND shared)
)
INSERT INTO tools.replies (token_hash, effect_id, epoch, attempt_id, call_id, tool_digest, shared, doubted)
VALUES ($1, $2, $3, $4, $5, $6, $7::bool, $9) ON CONFLICT (token_hash) DO NOTHING`

func keepTicket(ctx context.Context, tx pgx.Tx, b tools.Begin, epoch int64) error {
	_, err := tx.Exec(ctx, keepTicketSQL, b.Reply.Hash, b.EffectID, epoch, b.AttemptID, string(b.Call.ID), string(b.Call.ToolDigest),
		b.Reply.Shared, b.Reply.Continues, b.Doubted)
	return err
}

// awaitSQL leaves an intent to the callback. Its attempt stays named, so that
// nothing else begins, and wake_at ends the wait.
const awaitSQL = `
UPDATE tools.effects SET reply_until = clock_timestamp() + $4::bigint * interval '1 millisecond',
	wake_at = clock_timestamp() + $4::bigint * interval '1 millisecond', acted_at = clock_timestamp(), updated_at = clock_timestamp()
WHERE effect_id = $1 AND epoch = $2 AND attempt_id = $3 AND state = 'intent'`

// await records that the other side has accepted the act. A reply that was
// faster stands.
func await(ctx context.Context, tx pgx.Tx, f tools.Finish, receipt string) (mine bool, answered []tools.Call, err error) {
	tag, err := tx.Exec(ctx, awaitSQL, f.EffectID, f.Epoch, f.ID, f.Conclusion.Wait.Milliseconds())
	if err != nil {
		return false, nil, err
	}
	if tag.RowsAffected() == 0 {
		if mine, answered, err = replied(ctx, tx, f, receipt); err != nil || mine {
			return mine, answered, err
		}
		_, err = tx.Exec(ctx, receiptSQL, f.EffectID, f.ID, f.Epoch, f.Worker, true, receipt)
		return false, nil, err
	}
	_, err = tx.Exec(ctx, receiptSQL, f.EffectID, f.ID, f.Epoch, f.Worker, false, receipt)
	return true, nil, err
}

const repliedSQL = `SELECT count(*) FROM tools.replies WHERE effect_id = $1 AND applied AND (attempt_id = $2 OR shared)`

// replied reports whether a reply has settled the attempt before its own answer
// could be recorded. Then the answer is a receipt and nothing more.
func replied(ctx context.Context, tx pgx.Tx, f tools.Finish, receipt string) (bool, []tools.Call, error) {
	var n int
	if err := tx.QueryRow(ctx, repliedSQL, f.EffectID, f.ID).Scan(&n); err != nil || n == 0 {
		return false, nil, err
	}
	if _, err := tx.Exec(ctx, receiptSQL, f.EffectID, f.ID, f.Epoch, f.Worker, false, receipt); err != nil {
		return false, nil, err
	}
	found, err := calls(tx.Query(ctx, effectCallsSQL, f.EffectID))
	return err == nil, found, err
}

const awaitedColumns = `r.token_hash, r.effect_id, r.epoch, r.call_id, r.tool_digest, r.shared, r.doubted, r.live, coalesce(r.digest, ''), r.applied`

const awaitedSQL = `SELECT ` + awaitedColumns + ` FROM tools.replies r WHERE r.token_hash = $1`

type awaitedRow struct {
	Hash, EffectID        string
	Epoch                 int64
	CallID, ToolDigest    string
	Shared, Doubted, Live bool
	Digest                string
	Applied               bool
}

// readAwaited reads a ticket and, when one is given, its effect under a lock.
func readAwaited(ctx context.Context, q querier, hash string, lock pgx.Tx) (tools.Awaited, error) {
	found, err := collect[awaitedRow](q.Query(ctx, awaitedSQL, hash))
	if err != nil {
		return tools.Awaited{}, err
	}
	if len(found) == 0 {
		return tools.Awaited{}, fmt.Errorf("callback: %w", tools.ErrNotFound)
	}
	var e *tools.Effect
	if lock != nil {
		if e, err = lockEffect(ctx, lock, found[0].EffectID); err == nil { // what was read before the lock may be old
			found, err = collect[awaitedRow](lock.Query(ctx, awaitedSQL, hash))
		}
	} else {
		e, err = oneEffect(q.Query(ctx, effectByIDSQL, found[0].EffectID))
	}
	if err == nil && (e == nil || len(found) == 0) {
		err = fmt.Errorf("callback: %w", tools.ErrNotFound)
	}
	if err != nil {
		return tools.Awaited{}, err
	}
	r := found[0]
	a := tools.Awaited{
		Hash: r.Hash, Effect: *e, Epoch: r.Epoch, CallID: events.CallID(r.CallID), ToolDigest: events.Digest(r.ToolDigest),
		Shared: r.Shared, Doubted: r.Doubted, Live: r.Live, Digest: events.Digest(r.Digest), Applied: r.Applied,
	}
	a.RunID, _ = a.CallID.Run()
	return a, nil
}

const effectByIDSQL = `SELECT ` + effectColumns + ` FROM tools.effects e WHERE e.effect_id = $1`

// Awaited implements tools.Replies.
func (s *Store) Awaited(ctx context.Context, hash string) (tools.Awaited, error) {
	return readAwaited(ctx, s.pool, hash, nil)
}

// replySQL records what a reply says. The effect is locked, and Counts was asked
// under the lock.
const replySQL = `
UPDATE tools.effects e SET state = $2, doubted = $3, in_doubt = $4, result = $5::text::json, error = $6::text::json,
	next_attempt_at = NULL, wake_at = NULL, probe_since = NULL, probes = 0,
	acted_at = coalesce(e.acted_at, clock_timestamp()), updated_at = clock_timestamp()
WHERE e.effect_id = $1
RETURNING ` + effectColumns

const takeReplySQL = `UPDATE tools.replies SET taken_at = clock_timestamp(), digest = $2, applied = $3 WHERE token_hash = $1 AND taken_at IS NULL`

// TakeReply implements tools.Replies.
func (s *Store) TakeReply(ctx context.Context, t tools.Taken) (a tools.Awaited, err error) {
	failure, err := problemText(t.Conclusion.Error)
	if err != nil {
		return a, err
	}
	receipt, err := marshalText(t.Receipt)
	if err != nil {
		return a, err
	}
	err = pg.Retry(ctx, func(ctx context.Context) error {
		return s.tx(ctx, func(tx pgx.Tx) error {
			if a, err = readAwaited(ctx, tx, t.Hash, tx); err != nil || a.Digest != "" {
				return err
			}
			a.Digest, a.Applied = t.Digest, a.Counts(t.Verdict)
			if _, err := tx.Exec(ctx, takeReplySQL, t.Hash, string(t.Digest), a.Applied); err != nil {
				return err
			}
			// One receipt for each address, beside that of its attempt.
			if _, err := tx.Exec(ctx, receiptSQL, a.Effect.ID, "r-"+t.Hash[:24], a.Epoch, t.Worker, !a.Applied, *receipt); err != nil || !a.Applied {
				return err
			}
			con := t.Conclusion
			if con.State == tools.EffectUnknown && a.Effect.Open() {
				return nil // the doubt stays as it is
			}
			if con.InDoubt == tools.DoubtProbe {
				con.InDoubt = tools.DoubtAsk
			}
			after, err := oneEffect(tx.Query(ctx, replySQL, a.Effect.ID, con.State, con.Doubted, null(con.InDoubt), jsonText(t.Result), failure))
			if err != nil || after == nil {
				return errors.Join(err, errIf(after == nil, "effect %s changed under its lock", a.Effect.ID))
			}
			a.Effect = *after
			if err := keepArtifacts(ctx, tx, a.CallID, t.Artifacts); err != nil {
				return err
			}
			answered, err := calls(tx.Query(ctx, answerAllSQL, after.ID, con.State, after.Claim.Epoch, jsonText(t.Result), failure,
				null(con.InDoubt), nil, string(a.CallID), t.Worker))
			if err != nil {
				return err
			}
			owed, err := t.Messages(answered)
			if err != nil {
				return err
			}
			return owe(ctx, tx, owed)
		})
	})
	return a, err
}
