package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/services/runner"
)

// committed is what became of a commit: nothing when the version was missed.
type committed struct {
	done  bool
	epoch int64 // of the claim
	at    time.Time
}

// newCommits merges the commits of different runs. One whose reply was lost is found by
// its rows.
func newCommits(s *Store) *pg.Group[runner.Commit, committed] {
	return &pg.Group[runner.Commit, committed]{
		Name: "runner.commits",
		Key:  func(c runner.Commit) string { return string(c.After.RunID) },
		Bytes: func(c runner.Commit) int {
			n := len(c.After.Ending.Output)
			for _, f := range c.Facts {
				n += len(f.Data)
			}
			return n
		},
		Many:  s.commitMany,
		Found: s.findCommits,
	}
}

// Commit implements runner.Store.
func (s *Store) Commit(ctx context.Context, c runner.Commit) (int64, time.Time, error) {
	id := c.After.RunID
	if !alone(c) {
		did, err := s.commits.Do(ctx, c)
		if err == nil && !did.done {
			err = pgx.ErrNoRows
		}
		return did.epoch, did.at, conflict(id, err)
	}
	var did committed
	err := s.keyed.InTx(ctx, func(tx pgx.Tx) error {
		args, err := commitArgs([]runner.Commit{c})
		if err != nil {
			return err
		}
		var n int
		if err := tx.QueryRow(ctx, commitRuns, args...).Scan(&n, &did.epoch, &did.at); err != nil {
			return err
		}
		return follow(ctx, tx, c)
	})
	return did.epoch, did.at, conflict(id, err)
}

// alone says that a commit changes what other runs share, or what few do: it goes in
// a transaction of its own.
func alone(c runner.Commit) bool {
	return startsOf(c) > 0 || c.Settle != nil || leaves(c) || movesPause(c) || len(c.Alerts) > 0 || len(c.Notices) > 0 || movesSlots(c) != ""
}

// leaves says that the run stops owing a call that nobody has begun: it may wait for a
// pool. One that moves to another version books what that one says.
func leaves(c runner.Commit) bool {
	return c.Guard.Epoch == 0 && c.Before.OwesModelCall() && !c.After.OwesModelCall() || c.After.Moved > c.Before.Moved
}

// follow makes the changes that go with the commit of one run.
func follow(ctx context.Context, tx pgx.Tx, c runner.Commit) error {
	id := string(c.After.RunID)
	if leaves(c) {
		if _, err := tx.Exec(ctx, leavePool, id); err != nil {
			return err
		}
	}
	if movesPause(c) {
		if err := putPause(ctx, tx, c); err != nil {
			return err
		}
	}
	if err := insertNotices(ctx, tx, c.Notices); err != nil {
		return err
	}
	if moves := movesSlots(c); moves != "" {
		if _, err := tx.Exec(ctx, moves, id); err != nil {
			return err
		}
	}
	if err := insertOwn(ctx, tx, c.After, c.Alerts); err != nil || c.Settle == nil {
		return err
	}
	return settle(ctx, tx, *c.Settle)
}

// commitRuns commits rows of many runs. Every part hangs on "run", which has those whose
// version and guard hold: of the others nothing is written, and they are not answered.
// What a run adds are the elements of the later arrays from its _from to its _to. The
// runs come in the order of their ids and are locked in it; LIMIT tells the planner that
// they are few, so that it looks up each by its key. A row of what was spent is inserted
// only when there is none: inserting runs a trigger that reads runs. What is waited for is
// looked up and not inserted ON CONFLICT, which writes a record more for each row; nobody
// else inserts any while the version holds. OFFSET keeps that a look for each.
var commitRuns = `
WITH run AS (
    UPDATE runner.runs r SET seq = i.seq, status = i.status, waiting = i.waiting, output = coalesce(i.output::json, r.output), error = i.error::json,
        paused_for = i.paused_for, model_calls = i.model_calls, tool_calls = i.tool_calls, tokens = i.tokens,
        claim_worker = CASE i.claim WHEN 1 THEN i.worker WHEN 2 THEN NULL ELSE r.claim_worker END,
        claim_epoch = CASE i.claim WHEN 1 THEN r.claim_epoch + 1 ELSE r.claim_epoch END,
        claim_cause = CASE i.claim WHEN 1 THEN i.claim_cause WHEN 2 THEN NULL ELSE r.claim_cause END,
        claim_at = CASE i.claim WHEN 1 THEN clock_timestamp() WHEN 2 THEN NULL ELSE r.claim_at END,
        attempts = CASE WHEN i.anew THEN 0 ELSE r.attempts END,
        updated_at = clock_timestamp(),
        ended_at = CASE WHEN i.ends THEN clock_timestamp() ELSE r.ended_at END,
        cancelled_at = coalesce(r.cancelled_at, i.cancelled),
        min_reader = greatest(r.min_reader, i.reader), cost_micro_usd = i.cost, cost_estimated_micro_usd = i.cost_guess,
        messages = i.messages, messages_unread = i.unread, digest = i.digest, cache_read_tokens = i.cache_read, cache_write_tokens = i.cache_write
    FROM (SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[],
            $11::text[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::text[], $17::bigint[], $18::boolean[], $19::timestamptz[], $20::bigint[],
            $21::bigint[], $22::bigint[], $23::boolean[], $24::bigint[], $25::bigint[], $26::text[], $27::boolean[], $28::bigint[], $29::bigint[], $30::text[],
            $31::text[], $32::bigint[], $33::bigint[], $34::bigint[], $35::bigint[], $36::bigint[], $37::bigint[], $38::bigint[], $39::bigint[], $40::bigint[],
            $41::bigint[], $42::bigint[], $43::bigint[], $44::bigint[], $45::bigint[])
        WITH ORDINALITY AS u(run_id, before, seq, cause, worker, namespace, status, waiting, output, error,
            paused_for, model_calls, tool_calls, tokens, claim, claim_cause, guard, ends, cancelled, reader,
            cost, cost_guess, anew, messages, unread, digest, unclaimed, cache_read, cache_write, agent,
            root, begins, most, rows_from, rows_to, gone_from, gone_to, open_from, open_to, off_from,
            off_to, armed_from, armed_to, spend_from, spend_to, n) LIMIT $66) i
    WHERE r.run_id = i.run_id AND r.seq = i.before
      AND (i.guard = 0 OR r.claim_epoch = i.guard AND r.claim_worker = i.worker)
      AND (i.claim <> 1 AND NOT i.unclaimed OR r.claim_worker IS NULL)
    RETURNING i.n, r.run_id, r.claim_epoch, r.updated_at AS at, i.cause, i.worker, i.namespace, i.agent, i.root, i.begins, i.most,
        i.rows_from, i.rows_to, i.gone_from, i.gone_to, i.open_from, i.open_to, i.off_from, i.off_to, i.armed_from, i.armed_to, i.spend_from, i.spend_to),
entry AS (
    INSERT INTO runner.journal (run_id, seq, kind, status, cause, inbound, worker, at, data)
    SELECT run.run_id, ($46::bigint[])[k], ($47::text[])[k], ($48::text[])[k], run.cause, ($49::boolean[])[k], run.worker, run.at, ($50::text[])[k]::json
    FROM run, generate_series(run.rows_from, run.rows_to) k),
gone AS (DELETE FROM runner.pending p USING run WHERE p.run_id = run.run_id AND p.item = ANY(($51::text[])[run.gone_from:run.gone_to])),
open AS (
    INSERT INTO runner.pending (run_id, namespace, item, kind, detail, next_nudge)
    SELECT run.run_id, run.namespace, ($52::text[])[k], ($53::text[])[k], ($54::text[])[k],
        CASE WHEN ($53::text[])[k] IN ('signal', 'timer', 'slots') THEN 'infinity' ELSE clock_timestamp() + interval '30 s' END
    FROM run, generate_series(run.open_from, run.open_to) k
    WHERE NOT EXISTS (SELECT FROM runner.pending p WHERE p.run_id = run.run_id AND p.item = ($52::text[])[k] OFFSET 0)),
off AS (DELETE FROM runner.timers t USING run WHERE t.run_id = run.run_id AND t.timer = ANY(($55::text[])[run.off_from:run.off_to])),
armed AS (
    INSERT INTO runner.timers (run_id, timer, due, next_try)
    SELECT run.run_id, ($56::text[])[k], ($57::timestamptz[])[k], ($57::timestamptz[])[k] FROM run, generate_series(run.armed_from, run.armed_to) k
    ON CONFLICT (run_id, timer) DO NOTHING),
tree AS (
    INSERT INTO runner.trees AS t (root_run_id, begun, most) SELECT root, begins, most FROM run WHERE begins > 0
    ON CONFLICT (root_run_id) DO UPDATE SET begun = t.begun + excluded.begun, most = excluded.most),
used AS (
    SELECT run.namespace, date_trunc('hour', run.at, 'UTC') AS hour, run.run_id, run.root, run.agent, m.model, ($59::bigint[])[k] AS calls, ($60::bigint[])[k] AS input_tokens,
        ($61::bigint[])[k] AS cache_read_tokens, ($62::bigint[])[k] AS cache_write_tokens, ($63::bigint[])[k] AS output_tokens, ($64::bigint[])[k] AS cost_micro_usd, ($65::bigint[])[k] AS cost_estimated_micro_usd
    FROM run, unnest(($58::text[])[run.spend_from:run.spend_to]) WITH ORDINALITY m(model, nth), LATERAL (SELECT run.spend_from + m.nth - 1) i(k) LIMIT $67),
added AS (UPDATE runner.spend s SET ` + spendSums("used") + ` FROM used WHERE s.run_id = used.run_id AND s.model = used.model AND s.hour = used.hour),
spent AS (
    INSERT INTO runner.spend AS s (namespace, hour, run_id, root_run_id, agent, model, calls, input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, cost_micro_usd, cost_estimated_micro_usd)
    SELECT used.* FROM used WHERE NOT EXISTS (SELECT FROM runner.spend s WHERE s.run_id = used.run_id AND s.model = used.model AND s.hour = used.hour)
    ON CONFLICT (run_id, model, hour) DO UPDATE SET ` + spendSums("excluded") + `)
SELECT n, claim_epoch, at FROM run`

// commitMany commits what it can of many runs.
func (s *Store) commitMany(ctx context.Context, all []runner.Commit) ([]committed, error) {
	args, err := commitArgs(all)
	if err != nil {
		return nil, err
	}
	out := make([]committed, len(all))
	b := &pgx.Batch{}
	b.Queue(commitRuns, args...).Query(func(rows pgx.Rows) error {
		var n int
		var did committed
		_, err := pgx.ForEachRow(rows, []any{&n, &did.epoch, &did.at}, func() error {
			did.done = true
			out[n-1] = did
			return nil
		})
		return err
	})
	return out, s.keyed.Send(ctx, b)
}

const findCommits = `
SELECT i.n, j.at, r.claim_epoch, coalesce(r.claim_worker = i.worker AND r.claim_cause = i.claim_cause, false)
FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[]) AS i(n, run_id, seq, kind, cause, worker, claim_cause, data)
JOIN runner.journal j ON j.run_id = i.run_id AND j.seq = i.seq AND j.kind = i.kind AND j.cause = i.cause AND j.worker = i.worker AND j.data::text = i.data
JOIN runner.runs r ON r.run_id = i.run_id`

// findCommits tells which commits are there: all their rows are, by this worker. One that
// took a claim which another has by now is answered as missed, and looked at again.
func (s *Store) findCommits(ctx context.Context, all []runner.Commit) ([]*committed, error) {
	var ns, seqs []int64
	var runs, kinds, causes, workers, claims, data []string
	for i, c := range all {
		for _, f := range c.Facts {
			ns, runs, seqs, kinds = append(ns, int64(i)), append(runs, string(c.After.RunID)), append(seqs, f.Seq), append(kinds, f.Kind)
			causes, workers, claims, data = append(causes, causeOf(c)), append(workers, c.Worker), append(claims, c.Cause), append(data, string(f.Data))
		}
	}
	rows := make([]int, len(all))
	out := make([]*committed, len(all))
	b := &pgx.Batch{}
	b.Queue(findCommits, ns, runs, seqs, kinds, causes, workers, claims, data).Query(func(found pgx.Rows) error {
		var n int
		var did committed
		var claimed bool
		_, err := pgx.ForEachRow(found, []any{&n, &did.at, &did.epoch, &claimed}, func() error {
			if rows[n]++; rows[n] == len(all[n].Facts) && (claimed || all[n].Claim != runner.ClaimTake) {
				did.done = true
				out[n] = ptr(did)
			}
			return nil
		})
		return err
	})
	return out, s.keyed.Send(ctx, b)
}
