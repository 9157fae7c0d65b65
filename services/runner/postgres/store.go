// Package postgres keeps runs in the schema "runner". Every commit is one
// statement in one transaction, guarded by the run's version, so a crash leaves
// all of it or nothing.
package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// Store implements runner.Store.
type Store struct {
	pool   *pgxpool.Pool
	keyed  *pg.Keyed // for what runs all the time
	reader int       // what this release understands of a journal
}

var _ runner.Store = (*Store)(nil)

// New returns a store on pool, whose role must be holdfast_runner or stronger.
func New(pool *pgxpool.Pool) *Store {
	return &Store{pool: pool, keyed: pg.NewKeyed(pool), reader: events.Reader}
}

// ReadAs makes the store one of a release that understands another form of
// journals; call it before use.
func (s *Store) ReadAs(reader int) *Store {
	s.reader = reader
	return s
}

const loadRun = `
SELECT r.run_id IS NOT NULL, coalesce(namespace, ''), coalesce(seq, 0), coalesce(claim_worker, ''), coalesce(claim_epoch, 0), coalesce(claim_cause, ''),
       coalesce(attempts, 0), cancelled_at, clock_timestamp(), coalesce(min_reader, 1),
       CASE WHEN r.run_id IS NULL THEN EXISTS (SELECT FROM runner.deleted d WHERE d.run_id = $1) ELSE false END
FROM (SELECT 1) one LEFT JOIN runner.runs r ON r.run_id = $1`

const loadRows = `
SELECT seq, kind, status, cause, inbound, worker, at, data
FROM runner.journal WHERE run_id = $1 AND seq > $2 AND seq <= $3 ORDER BY seq`

// Load reads the run row and the journal rows that known does not have yet. The
// journal only grows, so what was folded once stays true.
func (s *Store) Load(ctx context.Context, id events.RunID, known *runner.State) (runner.Loaded, error) {
	var l runner.Loaded
	var namespace string
	var seq int64
	var reader int
	var cancelled *time.Time
	var found, deleted bool
	err := s.keyed.One(ctx, loadRun, []any{string(id)}, &found, &namespace, &seq, &l.Claim.Worker, &l.Claim.Epoch, &l.Claim.Cause, &l.Attempts, &cancelled, &l.Now, &reader, &deleted)
	if err != nil {
		return runner.Loaded{}, fmt.Errorf("load run %s: %w", id, err)
	}
	if deleted {
		return runner.Loaded{Now: l.Now}, fmt.Errorf("run %s: %w", id, runner.ErrDeleted)
	}
	if !found {
		return runner.Loaded{Now: l.Now}, fmt.Errorf("run %s: %w", id, runner.ErrNoRun)
	}
	if reader > s.reader {
		// The message goes to another process, soon, and is no failed attempt.
		return runner.Loaded{}, fault.RetryAfter(time.Second, fmt.Errorf("load run %s for reader %d: reader %d is needed: %w", id, s.reader, reader, runner.ErrNewer))
	}
	if cancelled != nil {
		l.CancelledAt = *cancelled
	}
	if known == nil || known.Seq > seq {
		known = runner.NewState(id, namespace)
	}
	l.State = known
	if known.Seq == seq {
		return l, nil
	}
	l.State = known.Clone()
	facts, err := s.facts(ctx, loadRows, string(id), known.Seq, seq)
	if err != nil {
		return runner.Loaded{}, fmt.Errorf("load journal of run %s: %w", id, err)
	}
	for _, f := range facts {
		if err := l.State.Apply(f); err != nil {
			return runner.Loaded{}, damaged(seq, l.State.Seq, err)
		}
	}
	if l.State.Seq != seq {
		return runner.Loaded{}, damaged(seq, l.State.Seq, fmt.Errorf("run %s: the journal ends at row %d, the run is at %d", id, l.State.Seq, seq))
	}
	return l, nil
}

// damaged is terminal: the rows will not become others.
func damaged(seq, last int64, err error) error {
	return fault.Terminal("damaged", &runner.DamagedError{Seq: seq, Last: last, Err: err})
}

func scanFact(row pgx.CollectableRow) (runner.Fact, error) {
	var f runner.Fact
	err := row.Scan(&f.Seq, &f.Kind, &f.Status, &f.Cause, &f.Inbound, &f.Worker, &f.At, &f.Data)
	return f, err
}

const rowsOf = `
SELECT seq, kind, status, cause, inbound, worker, at, data
FROM runner.journal WHERE run_id = $1 AND cause = $2 ORDER BY seq`

// RowsOf implements runner.Store.
func (s *Store) RowsOf(ctx context.Context, id events.RunID, cause string) ([]runner.Fact, error) {
	facts, err := s.facts(ctx, rowsOf, string(id), cause)
	if err != nil {
		return nil, fmt.Errorf("rows of %s in run %s: %w", cause, id, err)
	}
	return facts, nil
}

// facts reads rows of one run.
func (s *Store) facts(ctx context.Context, query string, args ...any) (facts []runner.Fact, err error) {
	b := &pgx.Batch{}
	b.Queue(query, args...).Query(func(rows pgx.Rows) (err error) {
		facts, err = pgx.CollectRows(rows, scanFact)
		return err
	})
	return facts, s.keyed.Send(ctx, b)
}

// The one commit. $1.. the run row, then the arrays of rows, pending items and
// timers. Every later part hangs on "run": without the version nothing happens.
const commitTail = `,
entry AS (
    INSERT INTO runner.journal (run_id, seq, kind, status, cause, inbound, worker, at, data)
    SELECT run.run_id, j.seq, j.kind, j.status, $3, j.inbound, $4, run.at, j.data::json
    FROM run, unnest($5::bigint[], $6::text[], $7::text[], $8::boolean[], $9::text[]) AS j(seq, kind, status, inbound, data)),
gone AS (DELETE FROM runner.pending p USING run WHERE p.run_id = run.run_id AND p.item = ANY($10::text[])),
open AS (
    INSERT INTO runner.pending (run_id, namespace, item, kind, detail, next_nudge)
    SELECT run.run_id, $11, i.item, i.kind, i.detail,
        CASE WHEN i.kind IN ('signal', 'timer', 'slots') THEN 'infinity' ELSE clock_timestamp() + interval '30 s' END FROM run, unnest($12::text[], $13::text[], $14::text[]) AS i(item, kind, detail)
    ON CONFLICT (run_id, item) DO NOTHING),
off AS (DELETE FROM runner.timers t USING run WHERE t.run_id = run.run_id AND t.timer = ANY($15::text[])),
armed AS (
    INSERT INTO runner.timers (run_id, timer, due, next_try)
    SELECT run.run_id, t.timer, t.due, t.due FROM run, unnest($16::text[], $17::timestamptz[]) AS t(timer, due)
    ON CONFLICT (run_id, timer) DO NOTHING)
SELECT claim_epoch, at FROM run`

const createRun = `
WITH run AS (
    INSERT INTO runner.runs (run_id, namespace, kind, name, digest, status, seq, waiting, input, output, error, labels, trigger, principal,
        parent_run_id, parent_item, paused_for, model_calls, tool_calls, tokens, claim_worker, claim_epoch, claim_cause, claim_at, accepted_at, ended_at, callback, min_reader, forked_from, forked_row, retried, priority,
        messages, messages_unread, deadline, cache_read_tokens, cache_write_tokens)
    VALUES ($1, $11, $18, $19, $20, $21, $2, $22, $23::json, $24::json, $25::json, $26::jsonb, $27::json, $28,
        $29, $30, $31, $32, $33, $34, $35, CASE WHEN $35::text IS NULL THEN 0 ELSE 1 END, CASE WHEN $35::text IS NOT NULL THEN $3::text END,
        CASE WHEN $35::text IS NOT NULL THEN clock_timestamp() END, $36, CASE WHEN $37::boolean THEN clock_timestamp() END, $38, $39, $40, $41, $42, $43, $44, $45, $46, $47, $48)
    ON CONFLICT (run_id) DO NOTHING
    RETURNING run_id, claim_epoch, created_at AS at)` + commitTail

const updateRun = `
WITH run AS (
    UPDATE runner.runs SET seq = $2, status = $18, waiting = $19, output = coalesce($20::json, output), error = $21::json,
        paused_for = $22, model_calls = $23, tool_calls = $24, tokens = $25,
        claim_worker = CASE $26 WHEN 1 THEN $27 WHEN 2 THEN NULL ELSE claim_worker END,
        claim_epoch = CASE $26 WHEN 1 THEN claim_epoch + 1 ELSE claim_epoch END,
        claim_cause = CASE $26 WHEN 1 THEN $28 WHEN 2 THEN NULL ELSE claim_cause END,
        claim_at = CASE $26 WHEN 1 THEN clock_timestamp() WHEN 2 THEN NULL ELSE claim_at END,
        attempts = CASE WHEN $36 THEN 0 ELSE attempts END,
        updated_at = clock_timestamp(),
        ended_at = CASE WHEN $30::boolean THEN clock_timestamp() ELSE ended_at END,
        cancelled_at = coalesce(cancelled_at, $31),
        min_reader = greatest(min_reader, $33), cost_micro_usd = $34, cost_estimated_micro_usd = $35, messages = $37, messages_unread = $38, digest = $39,
        cache_read_tokens = $41, cache_write_tokens = $42
    WHERE run_id = $1 AND seq = $32
      AND ($29 = 0 OR claim_epoch = $29 AND claim_worker = $27)
      AND ($26 <> 1 AND NOT $40 OR claim_worker IS NULL)
    RETURNING run_id, claim_epoch, updated_at AS at)` + commitTail

// Create implements runner.Store.
func (s *Store) Create(ctx context.Context, c runner.Commit) (int64, time.Time, error) {
	query, args := begins(c, createRun, createStarting, createArgs(c))
	if len(c.Notices) > 0 { // it failed at once
		return s.createTelling(ctx, c, query, args)
	}
	return s.run(ctx, query, c.After.RunID, args)
}

func createArgs(c runner.Commit) []any {
	st := c.After
	var claimer *string
	if c.Claim == runner.ClaimTake {
		claimer = &c.Worker
	}
	var parentRun, parentItem *string
	if p := st.Started.Parent; p != nil {
		parentRun, parentItem = ptr(string(p.RunID)), &p.Item
	}
	labels := st.Started.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	args := append(commitArgs(c),
		st.Started.Ref.Kind, st.Started.Ref.Name, string(st.Started.Ref.Digest), st.Status(), st.Waiting(),
		jsonText(st.Started.Input), jsonText(st.Ending.Output), problemText(whyNot(st)), marshalText(labels), marshalText(st.Started.Trigger), st.Started.Principal,
		parentRun, parentItem, pausedFor(st), st.ModelCalls, st.ToolCalls, st.Usage.Total(), claimer, st.Started.AcceptedAt, st.End != "",
		callbackURL(st), max(readerOf(c.Facts), st.Reader()))
	args = append(args, originOf(st)...)
	args = append(args, cmp.Or(st.Started.Priority, events.PriorityInteractive))
	heard, unread := st.Heard()
	return append(args, heard, unread, deadlineOf(st), st.Usage.CacheReadTokens, st.Usage.CacheWriteTokens)
}

// Commit implements runner.Store.
func (s *Store) Commit(ctx context.Context, c runner.Commit) (int64, time.Time, error) {
	st := c.After
	var cancelled *time.Time
	if st.Cancel != nil && !c.CancelledAt.IsZero() {
		cancelled = &c.CancelledAt
	}
	heard, unread := st.Heard()
	args := append(commitArgs(c),
		st.Status(), st.Waiting(), jsonText(st.Ending.Output), problemText(whyNot(st)), pausedFor(st), st.ModelCalls, st.ToolCalls, st.Usage.Total(),
		int(c.Claim), c.Worker, c.Cause, c.Guard.Epoch, st.End != "" && c.Before.End == "", cancelled, c.Before.Seq, readerOf(c.Facts), st.Cost, st.CostGuess, countsAnew(c), heard, unread,
		string(st.Started.Ref.Digest), c.Unclaimed, st.Usage.CacheReadTokens, st.Usage.CacheWriteTokens)
	// The run stops owing a call that nobody has begun: it may wait for a pool.
	// One that moves to another version books what that one says.
	leaves := c.Guard.Epoch == 0 && c.Before.OwesModelCall() && !st.OwesModelCall() || st.Moved > c.Before.Moved
	moves := movesSlots(c)
	query, args := begins(c, updateRun, updateStarting, args)
	query, args, err := spends(c, query, args)
	if err != nil {
		return 0, time.Time{}, err
	}
	pauses := movesPause(c)
	if c.Settle == nil && !leaves && !pauses && len(c.Alerts) == 0 && len(c.Notices) == 0 && moves == "" {
		return s.run(ctx, query, st.RunID, args)
	}
	var epoch int64
	var at time.Time
	err = s.keyed.InTx(ctx, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, query, args...).Scan(&epoch, &at); err != nil {
			return err
		}
		if leaves {
			if _, err := tx.Exec(ctx, leavePool, string(st.RunID)); err != nil {
				return err
			}
		}
		if pauses {
			if err := putPause(ctx, tx, c); err != nil {
				return err
			}
		}
		if err := insertNotices(ctx, tx, c.Notices); err != nil {
			return err
		}
		if moves != "" {
			if _, err := tx.Exec(ctx, moves, string(st.RunID)); err != nil {
				return err
			}
		}
		if err := insertOwn(ctx, tx, st, c.Alerts); err != nil || c.Settle == nil {
			return err
		}
		return settle(ctx, tx, *c.Settle)
	})
	return epoch, at, conflict(st.RunID, err)
}

func (s *Store) run(ctx context.Context, query string, id events.RunID, args []any) (epoch int64, at time.Time, err error) {
	err = s.keyed.One(ctx, query, args, &epoch, &at)
	return epoch, at, conflict(id, err)
}

func conflict(id events.RunID, err error) error {
	if errors.Is(err, pgx.ErrNoRows) || uniqueViolation(err) {
		return fmt.Errorf("run %s: %w", id, runner.ErrVersionConflict)
	}
	if treeFull(err) {
		return fmt.Errorf("run %s: %w", id, runner.ErrTreeFull)
	}
	if err != nil {
		return fmt.Errorf("commit run %s: %w", id, err)
	}
	return nil
}

// countsAnew reports whether lost workers are counted from none again: after
// progress of the claim's owner, and when a person lets a parked run go on.
func countsAnew(c runner.Commit) bool {
	resumed := c.Before.Attention != nil && c.After.Attention == nil && c.After.End == ""
	return resumed || c.Guard.Epoch > 0 && !c.Waits
}

// readerOf is the oldest reader that understands all of facts.
func readerOf(facts []runner.Fact) int {
	reader := 1
	for _, f := range facts {
		reader = max(reader, events.ReaderOf(f.Kind), f.Reader)
	}
	return reader
}

// commitArgs are $1 to $17, which both statements share.
func commitArgs(c runner.Commit) []any {
	var seqs []int64
	var kinds, statuses, data []string
	var inbound []bool
	for _, f := range c.Facts {
		seqs, kinds, statuses = append(seqs, f.Seq), append(kinds, f.Kind), append(statuses, f.Status)
		inbound, data = append(inbound, f.Inbound), append(data, string(f.Data))
	}
	var before []runner.Pending
	var timersBefore []runner.Timer
	if c.Before != nil {
		before, timersBefore = c.Before.PendingItems(), c.Before.Timers(c.CancelledAt)
	}
	gone, opened := diff(before, c.After.PendingItems(), func(p runner.Pending) string { return p.Item })
	off, armed := diff(timersBefore, c.After.Timers(c.CancelledAt), func(t runner.Timer) string { return t.Name })
	var items, itemKinds, details, timers []string
	var dues []time.Time
	for _, p := range opened {
		items, itemKinds, details = append(items, p.Item), append(itemKinds, p.Kind), append(details, p.Detail)
	}
	for _, t := range armed {
		timers, dues = append(timers, t.Name), append(dues, t.Due)
	}
	cause := c.Cause
	if len(c.Facts) > 0 {
		cause = c.Facts[0].Cause
	}
	return []any{string(c.After.RunID), c.After.Seq, cause, c.Worker, seqs, kinds, statuses, inbound, data,
		keys(gone, func(p runner.Pending) string { return p.Item }), c.After.Namespace, items, itemKinds, details,
		keys(off, func(t runner.Timer) string { return t.Name }), timers, dues}
}

// diff splits two lists by key: what only before has and what only after has.
func diff[T any](before, after []T, key func(T) string) (gone, added []T) {
	had := map[string]bool{}
	for _, v := range before {
		had[key(v)] = true
	}
	has := map[string]bool{}
	for _, v := range after {
		has[key(v)] = true
		if !had[key(v)] {
			added = append(added, v)
		}
	}
	for _, v := range before {
		if !has[key(v)] {
			gone = append(gone, v)
		}
	}
	return gone, added
}

func keys[T any](list []T, key func(T) string) []string {
	out := make([]string, 0, len(list))
	for _, v := range list {
		out = append(out, key(v))
	}
	return out
}

func pausedFor(st *runner.State) string {
	if st.Pause == nil || st.End != "" {
		return ""
	}
	return st.Pause.Pool
}

// whyNot is why the run failed, or stands still until a person looks.
func whyNot(st *runner.State) *events.Problem {
	if st.Attention != nil {
		return st.Attention
	}
	return st.Ending.Error
}

func callbackURL(st *runner.State) string {
	if st.Started.Callback == nil {
		return ""
	}
	return st.Started.Callback.URL
}

// deadlineOf is when the run ends at the latest; nil when it has all the time.
func deadlineOf(st *runner.State) *time.Time {
	if st.Started.Deadline == nil {
		return nil
	}
	return &st.Started.Deadline.At
}

// originOf are the columns of a run that began with the rows of another.
func originOf(st *runner.State) []any {
	if o := st.Started.Origin; o != nil {
		return []any{string(o.RunID), o.Row, st.Started.Trigger.Kind == "retry"}
	}
	return []any{nil, nil, false}
}

func ptr[T any](v T) *T { return &v }

func jsonText(raw json.RawMessage) *string {
	if len(raw) == 0 {
		return nil
	}
	return ptr(string(raw))
}

func problemText(p *events.Problem) *string {
	if p == nil {
		return nil
	}
	return ptr(marshalText(p))
}

func marshalText(v any) string {
	return string(must(events.Marshal(v)))
}

func uniqueViolation(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == "23505"
}
