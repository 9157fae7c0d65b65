package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/runner"
)

// base is the limit of the definition that the row follows: another definition
// sets the ceiling anew, and one with another unit begins to count anew.
const ensurePool = `
INSERT INTO runner.pools AS p (namespace, pool, window_start, unit, ceiling, base) VALUES ($1, $2, $3, $4, $5, $5)
ON CONFLICT (namespace, pool, window_start) DO UPDATE SET base = excluded.base, unit = excluded.unit,
    ceiling = CASE WHEN p.base IS NULL AND p.unit = excluded.unit THEN p.ceiling ELSE excluded.ceiling END,
    used = CASE WHEN p.unit = excluded.unit THEN p.used ELSE 0 END, reserved = CASE WHEN p.unit = excluded.unit THEN p.reserved ELSE 0 END
WHERE p.base IS DISTINCT FROM excluded.base OR p.unit <> excluded.unit`

// What was booked in another unit is no part of the count any more.
const dropForeign = `DELETE FROM runner.reservations WHERE namespace = $1 AND pool = $2 AND window_start = $3 AND unit <> $4`

func ensure(ctx context.Context, tx pgx.Tx, namespace, window string, p runner.Pool, now time.Time) error {
	tag, err := tx.Exec(ctx, ensurePool, namespace, p.Name, window, p.Unit(), p.Budget.CeilingAt(now))
	if err == nil && tag.RowsAffected() > 0 {
		_, err = tx.Exec(ctx, dropForeign, namespace, p.Name, window, p.Unit())
	}
	return err
}

const dbNow = `SELECT clock_timestamp()`

// A repeat for the same run, row and epoch books nothing. Otherwise the booking
// happens when the pool only alerts ($7), or when it fits under the ceiling and
// nobody waits before it: who was woken is the first.
const reserve = `
WITH old AS (SELECT 1 FROM runner.reservations WHERE run_id = $1 AND seq = $2 AND epoch = $3 AND pool = $5),
booked AS (
    UPDATE runner.pools SET reserved = reserved + $8
    WHERE namespace = $4 AND pool = $5 AND window_start = $6 AND NOT EXISTS (SELECT FROM old)
      AND ($7 OR used + reserved + $8 <= ceiling
           AND (EXISTS (SELECT FROM runner.pool_waits w WHERE w.run_id = $1 AND w.woken_at IS NOT NULL)
                OR NOT EXISTS (SELECT FROM runner.pool_waits w WHERE w.namespace = $4 AND w.pool = $5 AND w.window_start = $6)))
    RETURNING 1),
noted AS (
    INSERT INTO runner.reservations (run_id, seq, epoch, namespace, pool, window_start, amount, unit)
    SELECT $1, $2, $3, $4, $5, $6, $8, $9 FROM booked)
SELECT EXISTS (SELECT FROM old) OR EXISTS (SELECT FROM booked)`

const poolNow = `SELECT ceiling, used, reserved FROM runner.pools WHERE namespace = $1 AND pool = $2 AND window_start = $3`

// Reserve implements runner.Store: all pools or none, in one transaction.
func (s *Store) Reserve(ctx context.Context, r runner.Reservation) (runner.Reserved, error) {
	out := runner.Reserved{OK: true}
	var refused refusal
	pools := slices.SortedFunc(slices.Values(r.Pools), func(a, b runner.Pool) int { return strings.Compare(a.Name, b.Name) })
	err := pg.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		var now time.Time
		if err := tx.QueryRow(ctx, dbNow).Scan(&now); err != nil {
			return err
		}
		for _, p := range pools {
			window := p.Window(now)
			amount := r.Most.Of(p.Unit())
			if amount == 0 {
				continue // tool calls are booked when there are some
			}
			if err := ensure(ctx, tx, r.Namespace, window, p, now); err != nil {
				return err
			}
			var ok bool
			if err := tx.QueryRow(ctx, reserve, string(r.RunID), r.Seq, r.Epoch, r.Namespace, p.Name, window, !p.Hard(), amount, p.Unit()).Scan(&ok); err != nil {
				return err
			}
			if ok {
				continue
			}
			var ceiling, used, reserved int64
			if err := tx.QueryRow(ctx, poolNow, r.Namespace, p.Name, window).Scan(&ceiling, &used, &reserved); err != nil {
				return err
			}
			refused = refusal{pool: p, at: now, unit: p.Unit(), ceiling: ceiling, used: used + reserved, alerts: slices.Contains(p.Budget.AlertAt, int64(100))}
			out = runner.Reserved{Refused: p.Name, Full: used+amount > ceiling, Fail: p.Budget.OnExceeded == spec.OnExceededFail, Window: window, Until: p.Budget.Next(now), Amount: amount, Unit: p.Unit(),
				Reason: fmt.Sprintf("pool %s: %d of %d %s used, %d reserved, the next call may need %d", p.Name, used, ceiling, p.Unit(), reserved, amount)}
			return errRefused
		}
		if len(pools) == 0 {
			return nil
		}
		_, err := tx.Exec(ctx, leavePool, string(r.RunID))
		return err
	})
	if errors.Is(err, errRefused) {
		if err := s.keepRefusal(ctx, r.Namespace, r.RunID, out, refused); err != nil {
			return runner.Reserved{}, fmt.Errorf("refusal of pool %s: %w", out.Refused, err)
		}
		return out, nil
	}
	if err != nil {
		return runner.Reserved{}, fmt.Errorf("reserve for run %s: %w", r.RunID, err)
	}
	return out, nil
}

var errRefused = errors.New("refused")

// refusal is the pool as it was when it had no room.
type refusal struct {
	pool          runner.Pool
	at            time.Time
	unit          string
	ceiling, used int64
	alerts        bool
}

// keepRefusal keeps what the refused booking took back with it: the limit of the
// definition that it was judged by, and the alert.
func (s *Store) keepRefusal(ctx context.Context, namespace string, run events.RunID, out runner.Reserved, r refusal) error {
	return pg.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if err := ensure(ctx, tx, namespace, out.Window, r.pool, r.at); err != nil || !out.Full || !r.alerts {
			return err
		}
		_, err := tx.Exec(ctx, insertRefusal, namespace, out.Refused, out.Window, r.ceiling, r.used, r.unit, string(run), r.pool.Budget.Channel)
		return err
	})
}

// The hundredth percent is passed by the call that is refused: the pool never
// books beyond its ceiling. The row is about the ceiling that refused, which
// may have been raised since.
var insertRefusal = noticed(`
INSERT INTO runner.alerts (alert_id, namespace, pool, window_start, percent, ceiling, used, unit, passed_by)
VALUES (encode(sha256(convert_to(concat_ws('/', $1::text, $2::text, $3::text, 100, $4::bigint), 'UTF8')), 'hex'), $1, $2, $3, 100, $4, $5, $6, $7)
ON CONFLICT DO NOTHING`, "$8")

// One row per pool, window, threshold and ceiling: a second crossing of the
// same threshold inserts nothing. The id is derived from the key.
var insertAlert = noticed(`
INSERT INTO runner.alerts (alert_id, namespace, pool, window_start, percent, ceiling, used, unit, passed_by)
SELECT encode(sha256(convert_to(concat_ws('/', namespace, pool, window_start, $4::int, ceiling), 'UTF8')), 'hex'),
       namespace, pool, window_start, $4::int, ceiling, used + reserved, $5, $7
FROM runner.pools WHERE namespace = $1 AND pool = $2 AND window_start = $3 AND used * 100 >= ceiling * $6::int
ON CONFLICT DO NOTHING`, "$8")

// The booking is from the row at which the call was claimed; a message or an order may
// have come between that and the request.
const settleOne = `
WITH lost AS (
    DELETE FROM runner.reservations WHERE run_id = $1 AND seq <= $2 AND epoch = $3 AND pool = $4
    RETURNING namespace, pool, window_start, amount),
gone AS (SELECT namespace, pool, max(window_start) AS window_start, sum(amount) AS amount FROM lost GROUP BY 1, 2)
UPDATE runner.pools p SET reserved = p.reserved - gone.amount,
    used = p.used + CASE p.unit WHEN 'micro_usd' THEN $6::bigint WHEN 'modelCalls' THEN $7::bigint WHEN 'toolCalls' THEN $8::bigint WHEN 'steps' THEN $9::bigint ELSE $5::bigint END
FROM gone WHERE (p.namespace, p.pool, p.window_start) = (gone.namespace, gone.pool, gone.window_start)
RETURNING p.window_start`

func settle(ctx context.Context, tx pgx.Tx, st runner.Settlement) error {
	pools := slices.SortedFunc(slices.Values(st.Pools), func(a, b runner.Pool) int { return strings.Compare(a.Name, b.Name) })
	for _, p := range pools {
		var window string
		err := tx.QueryRow(ctx, settleOne, string(st.RunID), st.Seq, st.Epoch, p.Name,
			st.Used.Tokens, st.Used.MicroUSD, st.Used.ModelCalls, st.Used.ToolCalls, st.Used.Steps).Scan(&window)
		if errors.Is(err, pgx.ErrNoRows) {
			continue // settled before
		}
		if err != nil {
			return fmt.Errorf("settle pool %s: %w", p.Name, err)
		}
		for _, percent := range p.Budget.AlertAt {
			if _, err := tx.Exec(ctx, insertAlert, st.Namespace, p.Name, window, percent, p.Unit(), percent, string(st.RunID), p.Budget.Channel); err != nil {
				return fmt.Errorf("alert of pool %s: %w", p.Name, err)
			}
		}
	}
	return nil
}

const claimedByAnother = `SELECT EXISTS (SELECT FROM runner.runs WHERE run_id = $1 AND claim_epoch = $2 AND claim_worker <> $3)`

// Unreserve implements runner.Store.
func (s *Store) Unreserve(ctx context.Context, r runner.Reservation, worker string) error {
	if len(r.Pools) == 0 {
		return nil
	}
	return pg.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		var theirs bool
		if err := tx.QueryRow(ctx, claimedByAnother, string(r.RunID), r.Epoch, worker).Scan(&theirs); err != nil || theirs {
			return err
		}
		return settle(ctx, tx, runner.Settlement{Reservation: r})
	})
}

const raisePool = `
UPDATE runner.pools SET ceiling = greatest(ceiling, $4) WHERE namespace = $1 AND pool = $2 AND window_start = $3`

// RaisePool implements runner.Store. Raising twice to the same ceiling is the
// same as once.
func (s *Store) RaisePool(ctx context.Context, namespace string, p runner.Pool, to int64) error {
	return pg.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		var now time.Time
		if err := tx.QueryRow(ctx, dbNow).Scan(&now); err != nil {
			return err
		}
		window := p.Window(now)
		if err := ensure(ctx, tx, namespace, window, p, now); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, raisePool, namespace, p.Name, window, to)
		return err
	})
}

const dueAlerts = `
SELECT alert_id, namespace, pool, window_start, percent, ceiling, used, unit, at, announce_count, coalesce(passed_by, '')
FROM runner.alerts WHERE announced_at IS NULL AND next_announce_at <= clock_timestamp() ORDER BY at LIMIT $1`

// DueAlerts lists alerts that were not published yet, for the announce relay.
func (s *Store) DueAlerts(ctx context.Context, limit int) ([]events.Message, error) {
	rows, err := s.pool.Query(ctx, dueAlerts, limit)
	if err != nil {
		return nil, fmt.Errorf("due alerts: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (events.Message, error) {
		var a events.BudgetAlert
		var count int
		if err := row.Scan(&a.ID, &a.Namespace, &a.Pool, &a.Window, &a.Percent, &a.Limit, &a.Used, &a.Unit, &a.At, &count, &a.PassedBy); err != nil {
			return events.Message{}, err
		}
		a.At = a.At.UTC()
		if strings.HasPrefix(a.Pool, ownPrefix) {
			a.RunID = events.RunID(a.Window)
		} else if id, ok := events.FlowOfPool(a.Pool); ok {
			a.RunID = id
		}
		id := "alert:" + a.ID
		return events.Message{Subject: events.EventSubject("budget", a.ID), MsgID: pg.AnnounceID(id, count), ID: id, Source: "/services/runner",
			Type: events.TypeBudgetAlert, About: a.Pool, Time: a.At, Namespace: a.Namespace, Data: must(events.Marshal(a))}, nil
	})
}

const markAlerts = `
UPDATE runner.alerts SET announced_at = clock_timestamp(), announce_count = announce_count + 1 WHERE 'alert:' || alert_id = ANY($1)`

// MarkAlerts records that alerts were published. EVENTS keeps them: nobody
// commits an alert, so publishing is all there is.
func (s *Store) MarkAlerts(ctx context.Context, ids []string) error {
	_, err := s.pool.Exec(ctx, markAlerts, ids)
	return err
}
