// Package postgres keeps approvals in the schema approvals. Every time it
// writes comes from the database's clock.
package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

// Store implements the interfaces of package approvals. It is safe for
// concurrent use and keeps no state of its own.
type Store struct{ pool *pgxpool.Pool }

var (
	_ approvals.Inbox   = (*Store)(nil)
	_ approvals.Decider = (*Store)(nil)
	_ approvals.Reader  = (*Store)(nil)
)

// New returns a store on pool, which connects as holdfast_approvals.
func New(pool *pgxpool.Pool) *Store { return &Store{pool: pool} }

// Who is to be told is told by a row of the same commit.
const askSQL = `
WITH t AS MATERIALIZED (SELECT clock_timestamp() AS now),
asked AS (
INSERT INTO approvals.requests AS r (
	approval_id, namespace, run_id, kind, call_id, agent, tool, tool_digest, args, digest, epoch, key, summary, labels,
	ask_cause, asked_at, created_at, expires_at, valid_for, question, channel, preview, similarity, flow, rule, requester, policy, remind_gaps, remind_at, keeps, escalations, escalate_at)
SELECT $1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::text, $9::text::json, $10::text,
	$11::bigint, $12::text, $13::text, $14::text::jsonb, $15::text, t.now, t.now,
	t.now + $16::bigint * interval '1 millisecond', $17::bigint * interval '1 millisecond', $18::text::json, $19::text, $20::text, $21::text, ` + flowSQL + `, $22::text::json, $23::text, $24::text,
	$25::bigint[], CASE WHEN $19::text <> '' THEN t.now + ($25::bigint[])[1] * interval '1 millisecond' END, $26,
	(SELECT coalesce(array_agg(t.now + ms * interval '1 millisecond' ORDER BY n), '{}') FROM unnest($27::bigint[]) WITH ORDINALITY AS step (ms, n)),
	t.now + ($27::bigint[])[1] * interval '1 millisecond'
FROM t
ON CONFLICT (approval_id) DO UPDATE SET -- a withdrawal came first and keeps its state
	kind = EXCLUDED.kind, call_id = EXCLUDED.call_id, agent = EXCLUDED.agent, tool = EXCLUDED.tool,
	tool_digest = EXCLUDED.tool_digest, args = EXCLUDED.args, digest = EXCLUDED.digest, epoch = EXCLUDED.epoch,
	key = EXCLUDED.key, summary = EXCLUDED.summary, labels = EXCLUDED.labels, ask_cause = EXCLUDED.ask_cause,
	asked_at = EXCLUDED.asked_at, expires_at = EXCLUDED.expires_at, valid_for = EXCLUDED.valid_for,
	namespace = EXCLUDED.namespace, question = EXCLUDED.question, channel = EXCLUDED.channel,
	preview = EXCLUDED.preview, similarity = EXCLUDED.similarity, flow = EXCLUDED.flow,
	rule = EXCLUDED.rule, requester = EXCLUDED.requester, policy = EXCLUDED.policy
WHERE r.asked_at IS NULL AND r.run_id = EXCLUDED.run_id
RETURNING r.*),
told AS (
	INSERT INTO approvals.notices (notice_id, namespace, channel, reason, run_id, approval_id, body)
	SELECT approval_id || '-ask', namespace, channel, 'approval', run_id, approval_id,
		json_build_object('notice_id', approval_id || '-ask', 'namespace', namespace, 'channel', channel, 'reason', 'approval', 'run_id', run_id,
			'name', agent, 'approval_id', approval_id, 'tool', tool, 'at', asked_at)
	FROM asked WHERE channel <> '' AND state = 'pending' ON CONFLICT DO NOTHING)
SELECT ` + columns + ` FROM asked`

const knownSQL = `SELECT ` + columns + ` FROM approvals.requests
WHERE approval_id = $1 AND namespace = $2 AND run_id = $3 AND asked_at IS NOT NULL`

const runDeletedSQL = `SELECT EXISTS (SELECT FROM runner.v_deleted WHERE run_id = $1)`

// Ask implements approvals.Inbox.
func (s *Store) Ask(ctx context.Context, a approvals.Ask) (approvals.Request, bool, error) {
	labels := []byte("{}")
	if len(a.Labels) > 0 {
		var err error
		if labels, err = json.Marshal(a.Labels); err != nil {
			return approvals.Request{}, false, fault.Terminal("data", err)
		}
	}
	question, err := orNull(a.Question)
	if err != nil {
		return approvals.Request{}, false, err
	}
	rule, err := orNull(a.Rule)
	if err != nil {
		return approvals.Request{}, false, err
	}
	var now time.Time
	if a.Counts() {
		if err := s.pool.QueryRow(ctx, clockSQL).Scan(&now); err != nil {
			return approvals.Request{}, false, err
		}
	}
	r, err := s.open(ctx, a, []any{a.ID, a.Namespace, a.RunID, a.Kind, a.CallID, a.Agent, a.Tool, a.ToolDigest,
		string(a.Args), a.Digest, a.Epoch, a.Key, a.Summary, string(labels), a.Cause,
		a.Lasts(now).Milliseconds(), a.ValidFor.Milliseconds(), question, a.Channel,
		a.Preview, approvals.Similarity(a.Kind, a.Tool, a.Args, a.Labels), rule, a.Requester, a.Policy,
		append([]int64{}, approvals.ReminderGaps(a.Rule, a.ExpiresAfter, now)...), a.Keeps(), a.Steps(now)})
	if err == nil {
		return r, false, nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return approvals.Request{}, false, unstorable(err)
	}
	r, err = one(s.pool.Query(ctx, knownSQL, a.ID, a.Namespace, a.RunID))
	if errors.Is(err, pgx.ErrNoRows) {
		var deleted bool
		if err := s.pool.QueryRow(ctx, runDeletedSQL, a.RunID).Scan(&deleted); err != nil {
			return approvals.Request{}, false, err
		}
		if deleted {
			return approvals.Request{}, false, approvals.ErrRunDeleted
		}
		return approvals.Request{}, false, fault.Terminal("id_taken", fmt.Errorf("approval %s belongs to another run or namespace", a.ID))
	}
	return r, true, err
}

// orNull is v as JSON text; NULL for nil.
func orNull[T any](v *T) (*string, error) {
	if v == nil {
		return nil, nil
	}
	raw, err := events.Marshal(v)
	if err != nil {
		return nil, fault.Terminal("data", err)
	}
	return new(string(raw)), nil
}

const withdrawSQL = `
WITH t AS MATERIALIZED (SELECT clock_timestamp() AS now),
w AS (
	INSERT INTO approvals.requests AS r (approval_id, namespace, run_id, state, created_at, decided_at, withdraw_reason)
	SELECT $1::text, $2::text, $3::text, 'withdrawn', t.now, t.now, $4::text FROM t
	ON CONFLICT (approval_id) DO UPDATE SET
		state = CASE r.state WHEN 'pending' THEN 'withdrawn' ELSE r.state END,
		decided_at = CASE r.state WHEN 'pending' THEN EXCLUDED.decided_at ELSE r.decided_at END,
		withdraw_reason = CASE r.state WHEN 'pending' THEN EXCLUDED.withdraw_reason ELSE r.withdraw_reason END,
		unused_at = CASE r.state WHEN 'pending' THEN NULL ELSE EXCLUDED.decided_at END,
		unused_reason = CASE r.state WHEN 'pending' THEN '' ELSE EXCLUDED.withdraw_reason END
	WHERE r.run_id = EXCLUDED.run_id AND (r.state = 'pending' OR (r.decided_by <> '' AND r.unused_at IS NULL))
	RETURNING approval_id, namespace, state, decided_at, withdraw_reason)
INSERT INTO approvals.decisions (approval_id, namespace, at, principal, door, decision, comment, outcome)
SELECT approval_id, namespace, decided_at, '', 'run', state, withdraw_reason, 'decided' FROM w WHERE state = 'withdrawn'`

// Withdraw implements approvals.Inbox.
func (s *Store) Withdraw(ctx context.Context, w approvals.Withdrawal) error {
	_, err := s.pool.Exec(ctx, withdrawSQL, w.ID, w.Namespace, w.RunID, w.Reason)
	return unstorable(err)
}

const rejectSQL = `
INSERT INTO approvals.rejected (stream, stream_seq, subject, event_id, type, namespace, code, error, data)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`

// Reject implements approvals.Inbox.
func (s *Store) Reject(ctx context.Context, m events.Received, code string, cause error) error {
	data := []byte(m.Data)
	if data == nil {
		data = []byte{}
	}
	_, err := s.pool.Exec(ctx, rejectSQL, m.Stream, int64(m.StreamSeq), text(m.Subject), text(m.ID), text(m.Type),
		text(m.Namespace), text(code), text(cause.Error()), data)
	return err
}

// text makes what came from outside storable.
func text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

const lockSQL = `SELECT ` + columns + ` FROM approvals.requests
WHERE approval_id = $1 AND namespace = $2 AND asked_at IS NOT NULL FOR UPDATE`

const clockSQL = `SELECT clock_timestamp()`

// locked takes a request's row and then the time: read before, it could be of before
// another writer's wait.
func locked(ctx context.Context, tx pgx.Tx, id events.ApprovalID, namespace string) (r approvals.Request, now time.Time, err error) {
	if r, err = one(tx.Query(ctx, lockSQL, id, namespace)); err != nil {
		if errors.Is(err, pgx.ErrNoRows) {
			err = approvals.ErrNotFound
		}
		return r, now, err
	}
	return r, now, tx.QueryRow(ctx, clockSQL).Scan(&now)
}

// decideSQL runs while the row is locked, so the clock is read after every wait.
const decideSQL = `
WITH t AS MATERIALIZED (SELECT clock_timestamp() AS now)
UPDATE approvals.requests r SET
	state = $2::text, decided_by = $3::text, door = $4::text, comment = $5::text, result = $6::text::json,
	decided_at = t.now, valid_until = t.now + r.valid_for, next_announce_at = t.now,
	digest = COALESCE($7::text, r.digest), asked_digest = CASE WHEN $7::text IS NOT NULL THEN r.digest END, edited_args = $8::text::json,
	votes = COALESCE($9::text::json, r.votes)
FROM t
WHERE approval_id = $1 AND state = 'pending' AND (keeps OR expires_at > t.now)
RETURNING ` + columns

const attemptSQL = `
INSERT INTO approvals.decisions (approval_id, namespace, at, principal, door, decision, comment, result, outcome, args)
VALUES ($1, $2, COALESCE($3, clock_timestamp()), $4, $5, $6, $7, $8::text::json, $9, $10::text::json)`

// Decide implements approvals.Decider.
func (s *Store) Decide(ctx context.Context, a approvals.Attempt) (r approvals.Request, outcome approvals.Outcome, err error) {
	err = pg.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		var now time.Time
		var err error
		if r, now, err = locked(ctx, tx, a.ID, a.Namespace); err != nil {
			return err
		}
		var result *string
		if a.Result != nil {
			result = new(string(a.Result))
		}
		var digest, args *string
		if a.Edit != nil {
			digest, args = new(string(a.Edit.Digest)), new(string(a.Edit.Args))
		}
		outcome = approvals.Judge(r, a, now)
		votes, err := votesWith(r, a, now)
		if err != nil {
			return err
		}
		var at *time.Time
		if outcome == approvals.Decided || outcome == approvals.Counted {
			query, values := decideSQL, []any{a.ID, a.Decision, a.By, a.Door, a.Comment, result, digest, args, votes}
			if outcome == approvals.Counted {
				query, values = countSQL, []any{a.ID, votes}
			}
			won, err := one(tx.Query(ctx, query, values...))
			switch {
			case err == nil:
				if r = won; outcome == approvals.Decided {
					at = &won.DecidedAt
				}
			case errors.Is(err, pgx.ErrNoRows):
				outcome = approvals.TooLate // the last moment passed since the row was read
			default:
				return err
			}
		}
		_, err = tx.Exec(ctx, attemptSQL, a.ID, a.Namespace, at, a.By, a.Door, a.Decision, a.Comment, result, string(outcome), args)
		return err
	})
	if err != nil {
		return approvals.Request{}, "", fmt.Errorf("decide approval %s: %w", a.ID, err)
	}
	return r, outcome, nil
}

// The clock is read once, in a subquery, so that the index can be used; what a
// person decides at this moment is locked and left for the next sweep.
const expireSQL = `
WITH due AS (
	SELECT approval_id FROM approvals.requests
	WHERE state = 'pending' AND NOT keeps AND expires_at <= (SELECT clock_timestamp())
	ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED),
ended AS (
	UPDATE approvals.requests r SET state = 'expired', decided_at = clock_timestamp(), next_announce_at = clock_timestamp()
	FROM due WHERE r.approval_id = due.approval_id AND r.state = 'pending'
	RETURNING r.*),
noted AS (
	INSERT INTO approvals.decisions (approval_id, namespace, at, principal, door, decision, comment, outcome)
	SELECT approval_id, namespace, decided_at, '', 'clock', state, '', 'decided' FROM ended
	ORDER BY namespace, approval_id) -- the order in which the ends of the audit's chains are locked
SELECT ` + columns + ` FROM ended ORDER BY expires_at, approval_id`

// Expire implements approvals.Decider.
func (s *Store) Expire(ctx context.Context, limit int) ([]approvals.Request, error) {
	return many(s.pool.Query(ctx, expireSQL, limit))
}

const getSQL = `SELECT ` + columns + ` FROM approvals.requests
WHERE approval_id = $1 AND namespace = $2 AND asked_at IS NOT NULL`

// Get implements approvals.Reader.
func (s *Store) Get(ctx context.Context, namespace string, id events.ApprovalID) (approvals.Request, error) {
	r, err := one(s.pool.Query(ctx, getSQL, id, namespace))
	if errors.Is(err, pgx.ErrNoRows) {
		return r, approvals.ErrNotFound
	}
	return r, err
}

const listSQL = `SELECT ` + columns + ` FROM approvals.requests
WHERE namespace = $1 AND asked_at IS NOT NULL AND ($2 = '' OR kind = $2) AND ($3 = '' OR run_id = $3)
	AND (created_at, approval_id) < ($4, $5)
ORDER BY created_at DESC, approval_id DESC LIMIT $6`

const listStateSQL = `SELECT ` + columns + ` FROM approvals.requests
WHERE namespace = $1 AND asked_at IS NOT NULL AND ($2 = '' OR kind = $2) AND ($3 = '' OR run_id = $3)
	AND (created_at, approval_id) < ($4, $5) AND state = $7
	AND CASE $8::text WHEN 'hide' THEN ` + awake + ` WHEN 'only' THEN NOT ` + awake + ` ELSE true END
ORDER BY created_at DESC, approval_id DESC LIMIT $6`

// List implements approvals.Reader.
func (s *Store) List(ctx context.Context, f approvals.Filter) ([]approvals.Request, error) {
	before := approvals.Position{CreatedAt: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
	if f.Before != nil {
		before = *f.Before
	}
	query, args := listSQL, []any{f.Namespace, f.Kind, string(f.RunID), before.CreatedAt, before.ID, f.Limit}
	if f.State != "" {
		query, args = listStateSQL, append(args, f.State, f.Deferred)
	}
	return many(s.pool.Query(ctx, query, args...))
}

func one(rows pgx.Rows, err error) (approvals.Request, error) {
	if err != nil {
		return approvals.Request{}, err
	}
	r, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[row])
	if err != nil {
		return approvals.Request{}, err
	}
	return r.request()
}

func many(rows pgx.Rows, err error) ([]approvals.Request, error) {
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	if err != nil {
		return nil, err
	}
	out := make([]approvals.Request, 0, len(found))
	for _, r := range found {
		q, err := r.request()
		if err != nil {
			return nil, err
		}
		out = append(out, q)
	}
	return out, nil
}

// unstorable marks data that no retry can store: SQLSTATE classes 22 (data),
// 23 (constraint) and 54 (limit).
func unstorable(err error) error {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code[:2] {
		case "22", "23", "54":
			return fault.Terminal("data", err)
		}
	}
	return err
}
