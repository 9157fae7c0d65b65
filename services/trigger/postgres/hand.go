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

const handColumns = `namespace, name, digest, paused, next_at, next_nominal, next_fold, missed, skipped, fired,
	pause_at, pause_by, pause_note, rest_until, version`

// timedHand is a hand and the time at which Postgres read it.
type timedHand struct {
	trigger.Hand
	now time.Time
}

func scanHand(row pgx.CollectableRow) (timedHand, error) {
	var h timedHand
	var at, pausedAt, rest *time.Time
	var nominal *string
	var fold *int
	var pause trigger.Pause
	err := row.Scan(&h.Namespace, &h.Name, &h.Digest, &h.Paused, &at, &nominal, &fold, &h.Missed, &h.Skipped, &h.Fired,
		&pausedAt, &pause.By, &pause.Note, &rest, &h.Version, &h.now)
	if err == nil && at != nil && nominal != nil && fold != nil {
		h.Next = &trigger.Fire{At: *at, Nominal: *nominal, Fold: *fold}
	}
	if pausedAt != nil {
		pause.At = *pausedAt
		h.Pause = &pause
	}
	if rest != nil {
		h.Rest = *rest
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
INSERT INTO trigger.schedules (namespace, name, digest, paused, next_at, next_nominal, next_fold, missed, skipped, fired, pause_at, pause_by, pause_note, rest_until)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
ON CONFLICT DO NOTHING`

const updateHand = `
UPDATE trigger.schedules
SET digest = $3, paused = $4, next_at = $5, next_nominal = $6, next_fold = $7, missed = $8, skipped = $9, fired = $10,
    pause_at = $11, pause_by = $12, pause_note = $13, rest_until = $14, version = version + 1, updated_at = clock_timestamp()
WHERE namespace = $1 AND name = $2 AND version = $15`

const deleteHand = `
DELETE FROM trigger.schedules WHERE namespace = $1 AND name = $2 AND version = $3`

func handArgs(h trigger.Hand) []any {
	args := []any{h.Namespace, h.Name, string(h.Digest), h.Paused, nil, nil, nil, h.Missed, h.Skipped, h.Fired, nil, "", "", nil}
	if h.Next != nil {
		args[4], args[5], args[6] = h.Next.At, h.Next.Nominal, h.Next.Fold
	}
	if p := h.Pause; p != nil {
		args[10], args[11], args[12] = p.At, p.By, p.Note
	}
	if !h.Rest.IsZero() {
		args[13] = h.Rest
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
		var dropped trigger.Firing
		err = pg.InTx(ctx, s.pool, func(tx pgx.Tx) (err error) { dropped, err = dropHand(ctx, tx, *have); return err })
		if err == nil && dropped.Skips > 0 {
			s.metrics.Fired(ctx, time.Time{}, dropped)
		}
	default:
		_, err = s.pool.Exec(ctx, updateHand, append(handArgs(*next), have.Version)...)
	}
	if err != nil {
		return fmt.Errorf("set the hand of a schedule: %w", err)
	}
	return nil
}

// dropHand removes the hand of a schedule that is gone, and what waited for it,
// which it returns as one.
func dropHand(ctx context.Context, tx pgx.Tx, h trigger.Hand) (dropped trigger.Firing, err error) {
	tag, err := tx.Exec(ctx, deleteHand, h.Namespace, h.Name, h.Version)
	if err != nil || tag.RowsAffected() == 0 {
		return dropped, err
	}
	tag, err = tx.Exec(ctx, dropBuffered, h.Namespace, h.Name, trigger.ReasonDeleted)
	return gaveWay(trigger.ReasonDeleted, tag.RowsAffected()), err
}

// gaveWay stands for n fires that waited and start nothing.
func gaveWay(reason string, n int64) trigger.Firing {
	return trigger.Firing{Origin: trigger.OriginClock, State: trigger.FireSkipped, Reason: reason, Skips: n}
}

// A hand that another replica is firing is skipped, not waited for.
const takeDue = `
SELECT ` + handColumns + `, clock_timestamp()
FROM trigger.schedules
WHERE next_at <= clock_timestamp() AND coalesce(rest_until <= clock_timestamp(), true) AND NOT namespace || '/' || name = ANY ($1)
ORDER BY next_at, namespace, name
LIMIT 1
FOR UPDATE SKIP LOCKED`

const takeHand = `
SELECT ` + handColumns + `, clock_timestamp()
FROM trigger.schedules
WHERE namespace = $1 AND name = $2
FOR UPDATE`

// but is a list of names as the statements compare them; a name has no slash.
func but(names []trigger.HandName) []string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = n.Namespace + "/" + n.Name
	}
	return list
}

// Tick implements trigger.Hands. The fire, its delivery and the moved hand are
// one commit.
func (s *Store) Tick(ctx context.Context, not []trigger.HandName, decide func(context.Context, trigger.Held) (trigger.Tock, error)) (fired bool, err error) {
	fired, err = s.turn(ctx, takeDue, []any{but(not)}, decide)
	if err != nil {
		return false, fmt.Errorf("tick: %w", err)
	}
	return fired, nil
}

// Take implements trigger.Hands.
func (s *Store) Take(ctx context.Context, name trigger.HandName, decide func(context.Context, trigger.Held) (trigger.Tock, error)) error {
	taken, err := s.turn(ctx, takeHand, []any{name.Namespace, name.Name}, decide)
	if err == nil && !taken {
		err = trigger.ErrNotFound
	}
	return err
}

// turn takes one hand and commits what decide says.
func (s *Store) turn(ctx context.Context, query string, args []any, decide func(context.Context, trigger.Held) (trigger.Tock, error)) (taken bool, err error) {
	var now time.Time
	var made []trigger.Firing
	err = pg.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		h, err := hold(ctx, tx, query, args...)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		taken = true
		tock, err := decide(ctx, h)
		if err != nil {
			return err
		}
		now = h.Now
		made, err = commitTock(ctx, tx, h.Hand, tock)
		return err
	})
	if err == nil {
		s.metrics.Fired(ctx, now, made...)
	}
	return taken, err
}

// hold locks a hand and then reads what its schedule has under way.
func hold(ctx context.Context, tx pgx.Tx, query string, args ...any) (trigger.Held, error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return trigger.Held{}, err
	}
	h, err := pgx.CollectExactlyOneRow(rows, scanHand)
	if err != nil {
		return trigger.Held{}, err
	}
	open, buffered, err := standing(ctx, tx, h.Namespace, h.Name)
	return trigger.Held{Hand: h.Hand, Now: h.now, Open: open, Buffered: buffered}, err
}

const notePause = `
INSERT INTO trigger.pauses (namespace, schedule, paused, principal, note) VALUES ($1, $2, $3, $4, $5)`

// commitTock returns the fires that it made, and those that gave way.
func commitTock(ctx context.Context, tx pgx.Tx, h trigger.Hand, tock trigger.Tock) (all []trigger.Firing, err error) {
	if tock.Next == nil {
		dropped, err := dropHand(ctx, tx, h)
		if dropped.Skips > 0 {
			all = append(all, dropped)
		}
		return all, err
	}
	next := *tock.Next
	for _, f := range tock.Fires {
		made, superseded, err := insertFiring(ctx, tx, h, f)
		if err != nil {
			return nil, fmt.Errorf("fire %s of schedule %s: %w", f.Key(), h.Name, err)
		}
		if !made {
			continue
		}
		all = append(all, f)
		if superseded > 0 {
			all = append(all, gaveWay(trigger.ReasonSuperseded, superseded))
		}
		switch {
		case f.Origin != trigger.OriginClock:
		case f.State == trigger.FireSkipped && (f.Reason == trigger.ReasonOverlap || f.Reason == trigger.ReasonBufferFull):
			next.Skipped++
		case f.State == trigger.FireStarted, f.State == trigger.FireBuffered:
			next.Fired++ // falls with the claim, so that maxFires is never exceeded
		}
	}
	if n := tock.Note; n != nil {
		if _, err := tx.Exec(ctx, notePause, h.Namespace, h.Name, n.Paused, n.By, n.Note); err != nil {
			return nil, err
		}
	}
	_, err = tx.Exec(ctx, updateHand, append(handArgs(next), h.Version)...)
	return all, err
}

const untilDue = `
SELECT extract(epoch FROM min(greatest(next_at, rest_until)) - clock_timestamp())::float8, clock_timestamp()
FROM trigger.schedules
WHERE next_at IS NOT NULL AND NOT namespace || '/' || name = ANY ($1)`

// UntilDue implements trigger.Hands.
func (s *Store) UntilDue(ctx context.Context, not []trigger.HandName) (wait time.Duration, ok bool, now time.Time, err error) {
	var seconds *float64
	if err := s.pool.QueryRow(ctx, untilDue, but(not)).Scan(&seconds, &now); err != nil {
		return 0, false, now, fmt.Errorf("look for the next due schedule: %w", err)
	}
	if seconds == nil {
		return 0, false, now, nil
	}
	return time.Duration(*seconds * float64(time.Second)), true, now, nil
}

// Queries lists every statement, for the test that prepares them.
var Queries = map[string]string{
	"insertSignal": insertSignal, "insertSignalLogged": insertSignalLogged, "findSignalConflict": findSignalConflict, "findSignal": findSignal,
	"listSignals": listSignals, "assignSignals": assignSignals, "owedSignals": owedSignals, "signalsAnnounced": signalsAnnounced,
	"signalsLanded": signalsLanded, "expireSignals": expireSignals, "sweepStarts": sweepStarts,
	"insertBatch": insertBatch, "findConflicts": findConflicts,
	"insertDelivery": insertDelivery, "findConflict": findConflict, "findDelivery": findDelivery, "deliveryByID": deliveryByID,
	"gateSoon": gateSoon, "refill": refill, "takeToken": takeToken,
	"countPlaces": countPlaces, "sweepPlaces": sweepPlaces, "takePlace": takePlace, "leavePlace": leavePlace,
	"insertAttempt": insertAttempt, "insertLogged": insertLogged, "attemptByID": attemptByID, "replayable": replayable,
	"sweepAttempts": sweepAttempts, "listAttempts": listAttempts, "listUnlogged": listUnlogged, "deliveriesByID": deliveriesByID,
	"listHeld": listHeld, "release": release, "reject": reject,
	"unannounced": unannounced, "countBacklog": countBacklog, "keepInput": keepInput, "eventsOfRun": eventsOfRun, "headOfRun": headOfRun,
	"markAnnounced": markAnnounced, "markLanded": markLanded,
	"listHands": listHands, "insertHand": insertHand, "updateHand": updateHand, "deleteHand": deleteHand, "takeDue": takeDue,
	"takeHand": takeHand, "notePause": notePause, "untilDue": untilDue,
	"insertFire": insertFire, "remakeFire": remakeFire, "supersede": supersede, "insertCancel": insertCancel, "openRuns": openRuns,
	"countBuffered": countBuffered, "noteEnds": noteEnds, "takeWaiting": takeWaiting, "oldestBuffered": oldestBuffered,
	"settleFire": settleFire, "dropBuffered": dropBuffered, "lastFires": lastFires, "fireNow": fireNow, "madeFires": madeFires,
	"fireHistory": fireHistory, "owedCancels": owedCancels, "cancelsAnnounced": cancelsAnnounced, "cancelsLanded": cancelsLanded,
}
