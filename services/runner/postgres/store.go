// Package postgres keeps runs in the schema "runner". Every commit is guarded by
// the run's version and made in one transaction, mostly in one statement with
// those of other runs, so a crash leaves all of it or nothing.
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
	pool    *pgxpool.Pool
	keyed   *pg.Keyed // for what runs all the time
	commits *pg.Group[runner.Commit, committed]
	heads   *pg.Group[events.RunID, head]
	reader  int // what this release understands of a journal
}

var _ runner.Store = (*Store)(nil)

// New returns a store on pool, whose role must be holdfast_runner or stronger.
func New(pool *pgxpool.Pool) *Store {
	s := &Store{pool: pool, keyed: pg.NewKeyed(pool), reader: events.Reader}
	s.commits, s.heads = newCommits(s), newHeads(s)
	return s
}

// ReadAs makes the store one of a release that understands another form of
// journals; call it before use.
func (s *Store) ReadAs(reader int) *Store {
	s.reader = reader
	return s
}

const loadRows = `
SELECT seq, kind, status, cause, inbound, worker, at, data
FROM runner.journal WHERE run_id = $1 AND seq > $2 AND seq <= $3 ORDER BY seq`

// Load reads the run row and the journal rows that known does not have yet. The
// journal only grows, so what was folded once stays true.
func (s *Store) Load(ctx context.Context, id events.RunID, known *runner.State) (runner.Loaded, error) {
	h, err := s.heads.Do(ctx, id)
	if err == nil {
		err = h.err
	}
	if err != nil {
		return runner.Loaded{}, fmt.Errorf("load run %s: %w", id, err)
	}
	l := runner.Loaded{Claim: h.claim, Attempts: h.attempts, Now: h.now}
	if h.deleted {
		return runner.Loaded{Now: l.Now}, fmt.Errorf("run %s: %w", id, runner.ErrDeleted)
	}
	if !h.found {
		return runner.Loaded{Now: l.Now}, fmt.Errorf("run %s: %w", id, runner.ErrNoRun)
	}
	if h.reader > s.reader {
		// The message goes to another process, soon, and is no failed attempt.
		return runner.Loaded{}, fault.RetryAfter(time.Second, fmt.Errorf("load run %s for reader %d: reader %d is needed: %w", id, s.reader, h.reader, runner.ErrNewer))
	}
	if h.cancelled != nil {
		l.CancelledAt = *h.cancelled
	}
	seq := h.seq
	if known == nil || known.Seq > seq {
		known = runner.NewState(id, h.namespace)
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
FROM runner.journal WHERE run_id = $1 AND seq >= $3 AND cause = $2 ORDER BY seq`

// RowsOf implements runner.Store.
func (s *Store) RowsOf(ctx context.Context, id events.RunID, cause string, from int64) ([]runner.Fact, error) {
	facts, err := s.facts(ctx, rowsOf, string(id), cause, from)
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

// The run row, then the arrays of rows, pending items and timers. Every later part hangs
// on "run": when there is a row nothing happens.
const createRun = `
WITH run AS (
    INSERT INTO runner.runs (run_id, namespace, kind, name, digest, status, seq, waiting, input, output, error, labels, trigger, principal,
        parent_run_id, parent_item, paused_for, model_calls, tool_calls, tokens, claim_worker, claim_epoch, claim_cause, claim_at, accepted_at, ended_at, callback, min_reader, forked_from, forked_row, retried, priority,
        messages, messages_unread, deadline, cache_read_tokens, cache_write_tokens)
    VALUES ($1, $11, $18, $19, $20, $21, $2, $22, $23::json, $24::json, $25::json, $26::jsonb, $27::json, $28,
        $29, $30, $31, $32, $33, $34, $35, CASE WHEN $35::text IS NULL THEN 0 ELSE 1 END, CASE WHEN $35::text IS NOT NULL THEN $3::text END,
        CASE WHEN $35::text IS NOT NULL THEN clock_timestamp() END, $36, CASE WHEN $37::boolean THEN clock_timestamp() END, $38, $39, $40, $41, $42, $43, $44, $45, $46, $47, $48)
    ON CONFLICT (run_id) DO NOTHING
    RETURNING run_id, claim_epoch, created_at AS at),
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
    ON CONFLICT (run_id, timer) DO NOTHING)` + endOfCreate

const endOfCreate = `
SELECT claim_epoch, at FROM run`

// Create implements runner.Store.
func (s *Store) Create(ctx context.Context, c runner.Commit) (int64, time.Time, error) {
	query, args := begins(c)
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
	args := append(createdArgs(c),
		st.Started.Ref.Kind, st.Started.Ref.Name, string(st.Started.Ref.Digest), st.Status(), st.Waiting(),
		jsonText(st.Started.Input), jsonText(st.Ending.Output), problemText(whyNot(st)), marshalText(labels), marshalText(st.Started.Trigger), st.Started.Principal,
		parentRun, parentItem, pausedFor(st), st.ModelCalls, st.ToolCalls, st.Usage.Total(), claimer, st.Started.AcceptedAt, st.End != "",
		callbackURL(st), max(readerOf(c.Facts), st.Reader()))
	args = append(args, originOf(st)...)
	args = append(args, cmp.Or(st.Started.Priority, events.PriorityInteractive))
	heard, unread := st.Heard()
	return append(args, heard, unread, deadlineOf(st), st.Usage.CacheReadTokens, st.Usage.CacheWriteTokens)
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

// readerOf is the oldest reader that understands all of facts.
func readerOf(facts []runner.Fact) int {
	reader := 1
	for _, f := range facts {
		reader = max(reader, events.ReaderOf(f.Kind), f.Reader)
	}
	return reader
}

// createdArgs are $1 to $17.
func createdArgs(c runner.Commit) []any {
	m := movesOf(c)
	var seqs []int64
	var kinds, statuses, data []string
	var inbound []bool
	for _, f := range c.Facts {
		seqs, kinds, statuses = append(seqs, f.Seq), append(kinds, f.Kind), append(statuses, f.Status)
		inbound, data = append(inbound, f.Inbound), append(data, string(f.Data))
	}
	var items, itemKinds, details, timers []string
	var dues []time.Time
	for _, p := range m.opened {
		items, itemKinds, details = append(items, p.Item), append(itemKinds, p.Kind), append(details, p.Detail)
	}
	for _, t := range m.armed {
		timers, dues = append(timers, t.Name), append(dues, t.Due)
	}
	return []any{string(c.After.RunID), c.After.Seq, causeOf(c), c.Worker, seqs, kinds, statuses, inbound, data,
		m.gone, c.After.Namespace, items, itemKinds, details, m.off, timers, dues}
}

func causeOf(c runner.Commit) string {
	if len(c.Facts) > 0 {
		return c.Facts[0].Cause
	}
	return c.Cause
}

// moves are what a commit changes in what a run waits for.
type moves struct {
	gone   []string
	opened []runner.Pending
	off    []string
	armed  []runner.Timer
}

func movesOf(c runner.Commit) (m moves) {
	var before []runner.Pending
	var timersBefore []runner.Timer
	if c.Before != nil {
		before, timersBefore = c.Before.PendingItems(), c.Before.Timers(c.CancelledAt)
	}
	var gone []runner.Pending
	var off []runner.Timer
	gone, m.opened = diff(before, c.After.PendingItems(), func(p runner.Pending) string { return p.Item })
	off, m.armed = diff(timersBefore, c.After.Timers(c.CancelledAt), func(t runner.Timer) string { return t.Name })
	m.gone, m.off = keys(gone, func(p runner.Pending) string { return p.Item }), keys(off, func(t runner.Timer) string { return t.Name })
	return m
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
