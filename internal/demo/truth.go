package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/config"
)

// truth reads the services' read-only views, with the console's role.
type truth struct{ pool *pgxpool.Pool }

// openTruth connects as the console does: its role sees every view.
func openTruth(ctx context.Context, url config.Secret) (truth, error) {
	c, err := pgxpool.ParseConfig(url.Reveal())
	if err != nil {
		return truth{}, err
	}
	c.ConnConfig.User, c.MaxConns = "holdfast_console", 6
	c.ConnConfig.RuntimeParams["application_name"] = "holdfast-demo"
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return truth{}, err
	}
	return truth{pool: pool}, pool.Ping(ctx)
}

// claimed is one run that a worker has claimed.
type claimed struct {
	RunID string
	Seq   int64
	Input json.RawMessage
}

const queryClaims = `
SELECT run_id, seq, input FROM runner.v_runs
WHERE claim_worker = $1 AND ended_at IS NULL ORDER BY run_id LIMIT 1000`

func (t truth) claims(ctx context.Context, worker string) ([]claimed, error) {
	rows, err := t.pool.Query(ctx, queryClaims, worker)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[claimed])
}

const queryClaimOf = `SELECT coalesce(claim_worker, '') FROM runner.v_runs WHERE run_id = $1`

// claimOf names the worker that makes the model call of a run; "" for none.
func (t truth) claimOf(ctx context.Context, runID string) (worker string, err error) {
	err = t.pool.QueryRow(ctx, queryClaimOf, runID).Scan(&worker)
	return worker, err
}

const queryPid = `
SELECT pid FROM (
    SELECT name, pid FROM runner.v_workers UNION ALL SELECT name, pid FROM tools.v_workers
) w WHERE name = $1 LIMIT 1`

func (t truth) pid(ctx context.Context, worker string) (pid int, err error) {
	if err = t.pool.QueryRow(ctx, queryPid, worker).Scan(&pid); err != nil {
		return 0, fmt.Errorf("pid of worker %s: %w", worker, err)
	}
	return pid, nil
}

const queryChildren = `
SELECT run_id, kind, name, status, input FROM runner.v_runs
WHERE run_id = $1 OR parent_run_id = $1 ORDER BY run_id LIMIT 1000`

type child struct {
	RunID, Kind, Name, Status string
	Input                     json.RawMessage
}

func (t truth) family(ctx context.Context, flow string) ([]child, error) {
	rows, err := t.pool.Query(ctx, queryChildren, flow)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[child])
}

const queryNextRow = `
SELECT seq, at, worker FROM runner.v_events WHERE run_id = $1 AND seq > $2 ORDER BY seq LIMIT 1`

// nextRow is the first journal row after seq; ok is false when there is none.
func (t truth) nextRow(ctx context.Context, runID string, seq int64) (next int64, at time.Time, worker string, ok bool, err error) {
	err = t.pool.QueryRow(ctx, queryNextRow, runID, seq).Scan(&next, &at, &worker)
	if err == pgx.ErrNoRows {
		return 0, time.Time{}, "", false, nil
	}
	return next, at, worker, err == nil, err
}

const queryWriter = `
SELECT coalesce(worker, '') FROM tools.v_effects
WHERE state = 'intent' AND args->>'shop' = $1 ORDER BY created_at DESC LIMIT 1`

// writerOf names the tools worker that holds the open intent about a shop. With
// the ledger's intent switched off there is none, and "" comes back.
func (t truth) writerOf(ctx context.Context, shop string) (worker string, err error) {
	err = t.pool.QueryRow(ctx, queryWriter, shop).Scan(&worker)
	if err == pgx.ErrNoRows {
		return "", nil
	}
	return worker, err
}

const queryOpenEffects = `SELECT count(*) FROM tools.v_effects WHERE state = 'intent'`

func (t truth) openEffects(ctx context.Context) (n int, err error) {
	err = t.pool.QueryRow(ctx, queryOpenEffects).Scan(&n)
	return n, err
}

const queryPool = `
SELECT ceiling, used, jsonb_array_length(alerts) FROM runner.v_pools WHERE pool = $1 ORDER BY window_start DESC LIMIT 1`

func (t truth) budget(ctx context.Context, pool string) (ceiling, used int64, alerts int, err error) {
	err = t.pool.QueryRow(ctx, queryPool, pool).Scan(&ceiling, &used, &alerts)
	if err == pgx.ErrNoRows {
		err = nil
	}
	return ceiling, used, alerts, err
}

const queryPausedForBudget = `
SELECT DISTINCT run_id FROM runner.v_events
WHERE kind = 'paused' AND data->>'by' = 'budget' AND data->>'pool' = 'pool:' || $1 ORDER BY run_id LIMIT 1000`

// pausedFor lists the runs that a pool's ceiling ever stopped.
func (t truth) pausedFor(ctx context.Context, pool string) ([]string, error) {
	rows, err := t.pool.Query(ctx, queryPausedForBudget, pool)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

const queryRaises = `SELECT count(DISTINCT data->>'id') FROM runner.v_events WHERE kind = 'budget_raised' AND data->>'budget' = 'pool:' || $1`

func (t truth) raises(ctx context.Context, pool string) (n int, err error) {
	err = t.pool.QueryRow(ctx, queryRaises, pool).Scan(&n)
	return n, err
}

const queryDoubts = `
SELECT approval_id, coalesce(args->>'night', '') || '/' || coalesce(args->>'shop', '') || '/' || coalesce(args->>'product', ''),
       coalesce(decision, ''), coalesce(decided_by, '')
FROM approvals.v_requests WHERE kind = 'doubt' ORDER BY created_at, approval_id LIMIT 1000`

func (t truth) doubts(ctx context.Context) ([]doubtFact, error) {
	rows, err := t.pool.Query(ctx, queryDoubts)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[doubtFact])
}

// Decided once: one attempt took effect. Heard once: the run's journal has the
// decision once.
const queryApprovals = `
SELECT count(*),
       count(*) FILTER (WHERE (SELECT count(*) FROM approvals.v_decisions d WHERE d.approval_id = q.approval_id AND d.outcome = 'decided') = 1),
       count(*) FILTER (WHERE (SELECT count(*) FROM runner.v_events e WHERE e.run_id = q.run_id AND e.kind = 'approval_decided'
                               AND e.data->>'approval_id' = q.approval_id) = 1)
FROM approvals.v_requests q WHERE kind = 'action'`

func (t truth) approvals(ctx context.Context) (requests, decided, heard int, err error) {
	err = t.pool.QueryRow(ctx, queryApprovals).Scan(&requests, &decided, &heard)
	return requests, decided, heard, err
}

const queryJournal = `
SELECT (SELECT count(*) FROM runner.v_events),
       (SELECT count(*) FROM (SELECT run_id FROM runner.v_events GROUP BY run_id
                              HAVING min(seq) <> 1 OR max(seq) <> count(*)) g),
       (SELECT count(*) FROM (SELECT run_id, cause, kind FROM runner.v_events
                              WHERE kind IN ('tool_completed', 'approval_decided', 'child_completed', 'signal_received', 'timer_fired', 'run_started')
                              GROUP BY run_id, cause, kind HAVING count(*) > 1) d),
       (SELECT count(*) FROM runner.v_events WHERE kind = 'model_answered'),
       (SELECT count(*) FROM runner.v_runs)`

func (t truth) journal(ctx context.Context) (j journalFact, err error) {
	err = t.pool.QueryRow(ctx, queryJournal).Scan(&j.Rows, &j.Gaps, &j.DoubleCauses, &j.Answers, &j.Runs)
	return j, err
}

const queryAnswers = `
SELECT count(*), coalesce(sum((SELECT count(*) FROM json_array_elements(coalesce(data->'calls', '[]'::json)) c
                               WHERE c->'problem'->>'code' = 'budget')), 0),
       coalesce(sum((SELECT count(*) FROM json_array_elements(coalesce(data->'calls', '[]'::json)) c
                     WHERE c->>'tool' = $2)), 0)
FROM runner.v_events WHERE run_id = $1 AND kind = 'model_answered'`

// answers counts the model answers of a run, and of the calls they ask for
// those that the budget refused and those of one tool.
func (t truth) answers(ctx context.Context, runID, tool string) (answers, refused, asked int, err error) {
	err = t.pool.QueryRow(ctx, queryAnswers, runID, tool).Scan(&answers, &refused, &asked)
	return answers, refused, asked, err
}
