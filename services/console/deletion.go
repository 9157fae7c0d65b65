package console

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// OrderDelete is the order that a Bulk gives to runs that have ended and that no run
// started.
const OrderDelete = "delete"

// Deletion is what is known of a run that was deleted.
type Deletion struct {
	N         int64 // its place among all deletions
	RunID     events.RunID
	Root      events.RunID // the run with which it went
	Kind      string
	Name      string
	Status    string // how it had ended
	EndedAt   time.Time
	DeletedAt time.Time
	By        string // who ordered it; "retention" when its time was over
	Reason    string
}

// DeletedError says that there was such a run.
type DeletedError struct{ Deletion }

func (e *DeletedError) Error() string {
	text := fmt.Sprintf("run %s was deleted at %s by %s", e.RunID, e.DeletedAt.UTC().Format(time.RFC3339), e.By)
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// StaysError says why a run cannot be deleted.
type StaysError struct {
	RunID  events.RunID // the run that has to end, or be deleted, first
	Status string       // of a run that has not ended
	Parent bool         // RunID started the run that was to be deleted
	// Program says that RunID is a program's own run, of which nothing is deleted.
	Program bool
}

func (e *StaysError) Error() string {
	if e.Program {
		return "it is a program's own, ended or not: what a program saved is kept, and no rule of retention is about it"
	}
	if e.Parent {
		return fmt.Sprintf("it goes with the run that started it; delete run %s", e.RunID)
	}
	return fmt.Sprintf("only what has ended can be deleted, and run %s is %s; cancel it first", e.RunID, e.Status)
}

// DeletionOrder is an order to delete a run with all that is below it.
type DeletionOrder struct {
	RunID     events.RunID
	Namespace string
	Principal string
	Reason    string
	DryRun    bool // only say how many runs would go
}

// DeletionStore keeps orders to delete runs until the runner has carried them out.
type DeletionStore interface {
	// OrderDeletion keeps an order; a repeat keeps the first one. It returns the number
	// of runs that go. ErrNotFound, *DeletedError and *StaysError are about the run.
	OrderDeletion(ctx context.Context, o DeletionOrder) (runs int, err error)
	// OrderDeletions keeps those of many orders whose run can go, and returns which.
	OrderDeletions(ctx context.Context, list []DeletionOrder) (map[events.RunID]bool, error)
	// Deletions lists at most limit deleted runs of a namespace, the newest first,
	// before the place n; 0 is the beginning.
	Deletions(ctx context.Context, namespace string, before int64, limit int) ([]Deletion, error)
}

// deletePage orders the deletion of runs that fitted.
func (s *Service) deletePage(ctx context.Context, namespace, principal string, b Bulk, page []BulkRun) error {
	list := make([]DeletionOrder, len(page))
	for i, r := range page {
		list[i] = DeletionOrder{RunID: r.ID, Namespace: namespace, Principal: principal, Reason: b.Reason}
	}
	stored, err := s.OrderDeletions(ctx, list)
	if err != nil {
		return err
	}
	for i := range page {
		if stored[page[i].ID] {
			page[i].Command = string(page[i].ID)
		}
	}
	return nil
}
