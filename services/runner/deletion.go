package runner

import (
	"context"
	"time"

	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// Deletion is an order to delete a run with all runs below it.
type Deletion struct {
	RunID  events.RunID
	By     string // who ordered it; DeletedByRetention when the run's time is over
	Reason string
}

// DeletedByRetention is who deletes what the retention says.
const DeletedByRetention = "retention"

// EndedRun is a run that has ended and that no run started.
type EndedRun struct {
	RunID     events.RunID
	Namespace string
	Ref       events.Ref // without the digest
	Status    string
	EndedAt   time.Time
	Age       time.Duration // of its end, by the database's clock
}

// Deleter deletes runs that have ended.
type Deleter interface {
	// Ordered lists at most limit deletions behind a run that operators ordered and
	// that are not carried out, by run.
	Ordered(ctx context.Context, after events.RunID, limit int) ([]Deletion, error)
	// Delete deletes runs with all that is below each, in one transaction, and returns
	// the ids of all of them. A run that has not ended, that another run started, or
	// under which something is still owed (a call, a question, a child, a notice, the
	// post of an end) stays as it is, with all that is below it.
	Delete(ctx context.Context, list []Deletion) ([]events.RunID, error)
	// Purge deletes at most about most rows of what is left of deleted runs. It returns
	// the runs of which nothing is left now; more says that there may be others.
	Purge(ctx context.Context, most int) (clean []PurgedRun, more bool, err error)
	// EndedBefore lists at most limit runs behind a place that ended longer ago than
	// age, the oldest end first.
	EndedBefore(ctx context.Context, age time.Duration, after EndedRun, limit int) ([]EndedRun, error)
	// ForgetDeleted forgets at most limit runs that were deleted longer ago than age.
	ForgetDeleted(ctx context.Context, age time.Duration, limit int) (int, error)
	// ForgetSpend forgets at most limit rows of what was spent longer ago than age.
	ForgetSpend(ctx context.Context, age time.Duration, limit int) (int, error)
}

// PurgedRun is a deleted run of which nothing is left but that it was deleted.
type PurgedRun struct {
	RunID   events.RunID
	EndedAt time.Time
}

const (
	deleteEvery   = time.Second
	retainEvery   = 10 * time.Minute
	deleteBatch   = 50   // runs with what is below them, of one transaction
	purgeRows     = 1000 // of one transaction
	deletedForget = 400 * 24 * time.Hour
	spendForget   = 400 * 24 * time.Hour // whether its run is still there or not
)

// runDeletions carries out what operators ordered and what the retention says, and
// deletes what is left of deleted runs. Any number of processes do so at once.
func (s *Service) runDeletions(ctx context.Context) {
	var looked time.Time
	for ctx.Err() == nil {
		sleep(ctx, deleteEvery)
		err := s.DeleteOrdered(ctx)
		if err == nil && time.Since(looked) > retainEvery {
			if err = s.Retain(ctx); err == nil {
				looked = time.Now()
			}
		}
		if err == nil {
			err = s.PurgeDeleted(ctx)
		}
		if err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "deletion of runs failed, the next look goes on with it", telemetry.KeyErr, err)
			sleep(ctx, 5*time.Second)
		}
	}
}

// DeleteOrdered carries out the deletions that operators ordered. One that cannot be
// yet, because the run still owes something, is looked at again.
func (s *Service) DeleteOrdered(ctx context.Context) error {
	var after events.RunID
	for ctx.Err() == nil {
		list, err := s.store.Ordered(ctx, after, deleteBatch)
		if err != nil || len(list) == 0 {
			return err
		}
		if err := s.delete(ctx, list); err != nil {
			return err
		}
		after = list[len(list)-1].RunID
	}
	return ctx.Err()
}

func (s *Service) delete(ctx context.Context, list []Deletion) error {
	began := time.Now()
	gone, err := s.store.Delete(ctx, list)
	if err != nil {
		return err
	}
	for _, id := range gone {
		s.cache.forget(id)
	}
	if len(gone) > 0 {
		s.log.InfoContext(ctx, "runs deleted", "count", len(gone), "by", list[0].By)
		rest(ctx, began)
	}
	return nil
}

// Retain deletes the runs whose time is over, and what is known of deleted runs and of
// what was spent longer than that is.
func (s *Service) Retain(ctx context.Context) error {
	least, some := s.retention.least()
	var after EndedRun
	for some && ctx.Err() == nil {
		page, err := s.store.EndedBefore(ctx, least, after, 500)
		if err != nil {
			return err
		}
		var due []Deletion
		for _, r := range page {
			if keep := s.retention.Of(r); keep > 0 && r.Age > keep {
				due = append(due, Deletion{RunID: r.RunID, By: DeletedByRetention})
			}
		}
		for from := 0; from < len(due); from += deleteBatch {
			if err := s.delete(ctx, due[from:min(from+deleteBatch, len(due))]); err != nil {
				return err
			}
		}
		if len(page) < 500 {
			break
		}
		after = page[len(page)-1]
	}
	if err := forget(ctx, deletedForget, s.store.ForgetDeleted); err != nil {
		return err
	}
	return forget(ctx, spendForget, s.store.ForgetSpend)
}

// forget forgets what is older than age, slice by slice.
func forget(ctx context.Context, age time.Duration, slice func(ctx context.Context, age time.Duration, limit int) (int, error)) error {
	for ctx.Err() == nil {
		if n, err := slice(ctx, age, purgeRows); err != nil || n < purgeRows {
			return err
		}
	}
	return ctx.Err()
}

// PurgeDeleted deletes what is left of deleted runs, slice by slice: each is a
// transaction of its own, and after a crash the next slice goes on.
func (s *Service) PurgeDeleted(ctx context.Context) error {
	for ctx.Err() == nil {
		began := time.Now()
		clean, more, err := s.store.Purge(ctx, purgeRows)
		if err != nil {
			return err
		}
		for _, r := range clean {
			if s.events != nil && time.Since(r.EndedAt) < eventsKept {
				if err := s.events.ForgetEvents(ctx, r.RunID); err != nil {
					s.logFor(r.RunID).WarnContext(ctx, "events of a deleted run stay in the stream until they are a day old", telemetry.KeyErr, err)
				}
			}
		}
		if !more {
			return nil
		}
		if err := failpoint.Hit("runner.purged", ""); err != nil {
			return err
		}
		rest(ctx, began)
	}
	return ctx.Err()
}

// eventsKept is longer than the stream of events keeps any.
const eventsKept = 25 * time.Hour

// EventStream is where a run's events can still be read behind its deletion.
type EventStream interface {
	ForgetEvents(ctx context.Context, id events.RunID) error
}

// rest leaves the database to others for as long as the work took.
func rest(ctx context.Context, began time.Time) { sleep(ctx, min(time.Since(began), 5*time.Second)) }

// dropped acknowledges a message for a run that was deleted: it says nothing new, and
// does not bring the run back.
func (s *Service) dropped(ctx context.Context, id events.RunID, m events.Received) {
	s.cache.forget(id)
	s.logFor(id).InfoContext(ctx, "message for a deleted run dropped", telemetry.KeyMessageID, m.ID)
}
