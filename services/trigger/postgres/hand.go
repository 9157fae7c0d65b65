package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/services/trigger"
)

const handColumns = `namespace, name, digest, paused, next_at, next_nominal, next_fold, missed, version`

// timedHand is a hand and the time at which Postgres read it.
type timedHand struct {
	trigger.Hand
	now time.Time
}

func scanHand(row pgx.CollectableRow) (timedHand, error) {
	var h timedHand
	var at *time.Time
	var nominal *string
	var fold *int
	err := row.Scan(&h.Namespace, &h.Name, &h.Digest, &h.Paused, &at, &nominal, &fold, &h.Missed, &h.Version, &h.now)
	if err == nil && at != nil && nominal != nil && fold != nil {
		h.Next = &trigger.Fire{At: *at, Nominal: *nominal, Fold: *fold}
	}
	return h, err
}

const listHands = `
SELECT ` + handColumns + `, clock_timestamp()
FROM trigger.schedules
WHERE $1 = '' OR namespace = $1
ORDER BY namespace, name
LIMIT 100000`

// Hands implements trigger.Hands.
func (s *Store) Hands(ctx context.Context, namespace string) ([]trigger.Hand, time.Time, error) {
	var now time.Time
	if err := s.pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
		return nil, time.Time{}, err
	}
	rows, err := s.pool.Query(ctx, listHands, namespace)
	if err != nil {
		return nil, time.Time{}, err
	}
	timed, err := pgx.CollectRows(rows, scanHand)
	if err != nil {
		return nil, time.Time{}, err
	}
	hands := make([]trigger.Hand, len(timed))
	for i, h := range timed {
		hands[i] = h.Hand
	}
	return hands, now, nil
}

const insertHand = `
INSERT INTO trigger.schedules (namespace, name, digest, paused, next_at, next_nominal, next_fold, missed)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT DO NOTHING`

const updateHand = `
UPDATE trigger.schedules
SET digest = $3, paused = $4, next_at = $5, next_nominal = $6, next_fold = $7, missed = $8,
    version = version + 1, updated_at = clock_timestamp()
WHERE namespace = $1 AND name = $2 AND version = $9`

const deleteHand = `
DELETE FROM trigger.schedules WHERE namespace = $1 AND name = $2 AND version = $3`

func handArgs(h trigger.Hand) []any {
	args := []any{h.Namespace, h.Name, string(h.Digest), h.Paused, nil, nil, nil, h.Missed}
	if h.Next != nil {
		args[4], args[5], args[6] = h.Next.At, h.Next.Nominal, h.Next.Fold
	}
	return args
}

// SetHand implements trigger.Hands. Losing to another change is no error: the
// next look sees what won.
func (s *Store) SetHand(ctx context.Context, have, next *trigger.Hand) error {
	var err error
	switch {
	case have == nil && next == nil:
	case have == nil:
		_, err = s.pool.Exec(ctx, insertHand, handArgs(*next)...)
	case next == nil:
		_, err = s.pool.Exec(ctx, deleteHand, have.Namespace, have.Name, have.Version)
	default:
		_, err = s.pool.Exec(ctx, updateHand, append(handArgs(*next), have.Version)...)
	}
	if err != nil {
		return fmt.Errorf("set the hand of a schedule: %w", err)
	}
	return nil
}

// A hand that another replica is firing is skipped, not waited for.
const takeDue = `
SELECT ` + handColumns + `, clock_timestamp()
FROM trigger.schedules
WHERE next_at <= clock_timestamp() AND NOT namespace || '/' || name = ANY ($1)
ORDER BY next_at, namespace, name
LIMIT 1
FOR UPDATE SKIP LOCKED`

// but is a list of names as the statements compare them; a name has no slash.
func but(names []trigger.HandName) []string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = n.Namespace + "/" + n.Name
	}
	return list
}

const insertFire = `
INSERT INTO trigger.fires (namespace, schedule, nominal, fold, due_at, digest, run_id, delivery_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8::text::uuid)
ON CONFLICT DO NOTHING`

// Tick implements trigger.Hands. The fire, its delivery and the moved hand are
// one commit.
func (s *Store) Tick(ctx context.Context, not []trigger.HandName, decide func(context.Context, trigger.Hand, time.Time) (trigger.Tock, error)) (fired bool, err error) {
	err = pg.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, takeDue, but(not))
		if err != nil {
			return err
		}
		h, err := pgx.CollectExactlyOneRow(rows, scanHand)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		fired = true
		tock, err := decide(ctx, h.Hand, h.now)
		if err != nil {
			return err
		}
		for _, f := range tock.Fires {
			if err := insertFiring(ctx, tx, h.Hand, f); err != nil {
				return fmt.Errorf("fire %s of schedule %s: %w", f.Fire.Key(), h.Name, err)
			}
		}
		if tock.Next == nil {
			_, err = tx.Exec(ctx, deleteHand, h.Namespace, h.Name, h.Version)
			return err
		}
		_, err = tx.Exec(ctx, updateHand, append(handArgs(*tock.Next), h.Version)...)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("tick: %w", err)
	}
	return fired, nil
}

func insertFiring(ctx context.Context, tx pgx.Tx, h trigger.Hand, f trigger.Firing) error {
	args := []any{h.Namespace, h.Name, f.Fire.Nominal, f.Fire.Fold, f.Fire.At, string(f.Digest), nil, nil}
	if f.Delivery != nil {
		args[6], args[7] = string(f.Delivery.RunID), string(f.Delivery.ID)
	}
	tag, err := tx.Exec(ctx, insertFire, args...)
	if err != nil || tag.RowsAffected() == 0 {
		return err // it fired before: whatever moved the hand back, it does not fire again
	}
	switch {
	case f.Delivery != nil:
		_, err = tx.Exec(ctx, insertDelivery, insertArgs(*f.Delivery)...)
	case f.Rejected != nil:
		_, err = tx.Exec(ctx, reject, rejectArgs(*f.Rejected)...)
	}
	return err
}

const untilDue = `
SELECT extract(epoch FROM min(next_at) - clock_timestamp())::float8
FROM trigger.schedules
WHERE next_at IS NOT NULL AND NOT namespace || '/' || name = ANY ($1)`

// UntilDue implements trigger.Hands.
func (s *Store) UntilDue(ctx context.Context, not []trigger.HandName) (wait time.Duration, ok bool, err error) {
	var seconds *float64
	if err := s.pool.QueryRow(ctx, untilDue, but(not)).Scan(&seconds); err != nil {
		return 0, false, fmt.Errorf("look for the next due schedule: %w", err)
	}
	if seconds == nil {
		return 0, false, nil
	}
	return time.Duration(*seconds * float64(time.Second)), true, nil
}

const lastFires = `
SELECT DISTINCT ON (schedule) schedule, nominal, fold, fired_at, coalesce(run_id, '')
FROM trigger.fires
WHERE namespace = $1
ORDER BY schedule, nominal DESC, fold DESC
LIMIT 100000`

// LastFires implements trigger.Hands.
func (s *Store) LastFires(ctx context.Context, namespace string) (map[string]trigger.PastFire, error) {
	rows, err := s.pool.Query(ctx, lastFires, namespace)
	if err != nil {
		return nil, err
	}
	last := map[string]trigger.PastFire{}
	var name string
	var f trigger.PastFire
	_, err = pgx.ForEachRow(rows, []any{&name, &f.Nominal, &f.Fold, &f.FiredAt, &f.RunID}, func() error {
		last[name] = f
		return nil
	})
	return last, err
}

// Queries lists every statement, for the test that prepares them.
var Queries = map[string]string{
	"insertDelivery": insertDelivery, "findConflict": findConflict, "findDelivery": findDelivery, "deliveryByID": deliveryByID,
	"listDeliveries": listDeliveries, "listHeld": listHeld, "release": release, "reject": reject,
	"unannounced": unannounced, "markAnnounced": markAnnounced, "markLanded": markLanded,
	"listHands": listHands, "insertHand": insertHand, "updateHand": updateHand, "deleteHand": deleteHand, "takeDue": takeDue,
	"insertFire": insertFire, "untilDue": untilDue, "lastFires": lastFires,
}
