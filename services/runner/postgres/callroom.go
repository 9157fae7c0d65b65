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
	"github.com/holdfast-run/holdfast/services/runner"
)

const (
	oldCalls = `SELECT amount FROM runner.reservations WHERE run_id = $1 AND seq = $2 AND epoch = $3 AND pool = $4`
	callRoom = `
SELECT greatest(ceiling - used - reserved, 0) FROM runner.pools WHERE namespace = $1 AND pool = $2 AND window_start = $3 FOR UPDATE`
	bookCalls = `
WITH noted AS (
    INSERT INTO runner.reservations (run_id, seq, epoch, namespace, pool, window_start, amount, unit) VALUES ($1, $2, $3, $4, $5, $6, $7, $8))
UPDATE runner.pools SET reserved = reserved + $7 WHERE namespace = $4 AND pool = $5 AND window_start = $6`
)

// ReserveCalls implements runner.Store. The pools are locked in the order of
// their names, so that two answers never wait for each other.
func (s *Store) ReserveCalls(ctx context.Context, r runner.Reservation) (room runner.CallRoom, err error) {
	pools := slices.SortedFunc(slices.Values(r.Pools), func(a, b runner.Pool) int { return strings.Compare(a.Name, b.Name) })
	err = pg.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		room = runner.CallRoom{Calls: r.Most.ToolCalls}
		windows := make([]string, len(pools))
		var now time.Time
		if err := tx.QueryRow(ctx, dbNow).Scan(&now); err != nil {
			return err
		}
		for i, p := range pools {
			var got int64
			err := tx.QueryRow(ctx, oldCalls, string(r.RunID), r.Seq, r.Epoch, p.Name).Scan(&got)
			if err == nil { // booked before, together with the others
				room = runner.CallRoom{Calls: got, Pool: p.Name}
				return nil
			}
			if !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
			windows[i] = p.Window(now)
			if err := ensure(ctx, tx, r.Namespace, windows[i], p, now); err != nil {
				return err
			}
			if err := tx.QueryRow(ctx, callRoom, r.Namespace, p.Name, windows[i]).Scan(&got); err != nil {
				return err
			}
			if p.Hard() && got < room.Calls {
				room = runner.CallRoom{Calls: got, Pool: p.Name}
			}
		}
		for i, p := range pools {
			if _, err := tx.Exec(ctx, bookCalls, string(r.RunID), r.Seq, r.Epoch, r.Namespace, p.Name, windows[i], room.Calls, p.Unit()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return runner.CallRoom{}, fmt.Errorf("reserve tool calls of run %s: %w", r.RunID, err)
	}
	return room, nil
}
