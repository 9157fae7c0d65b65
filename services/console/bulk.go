package console

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// BulkVariables are what a condition over runs may read.
var BulkVariables = []string{"status", "kind", "name", "agent", "flow", "labels", "waiting", "error", "principal", "trigger", "parent",
	"model_calls", "tool_calls", "tokens", "attempts", "age", "idle", "id", "cost"}

const (
	// BulkMax is how many runs one request may command.
	BulkMax = 10_000
	// DefaultBulkMax is how many it may command unless it says more.
	DefaultBulkMax = 1000
	bulkPage       = 500
)

// OrderRetry is the order that a Bulk gives to runs that have failed.
const OrderRetry = "retry"

// Bulk is one order for every run of a namespace that has not ended and that a
// condition fits; OrderRetry is for those that ended without success, OrderDelete for
// those that ended and that no run started.
type Bulk struct {
	Order
	// Where is over BulkVariables. Age and idle are seconds since the run was
	// accepted and since it changed, by the database's clock; error is null or
	// {code, message}; agent and flow are empty for runs of the other kind; cost is in
	// micro-dollars.
	Where *spec.Condition
	// Key is the request's Idempotency-Key: no run gets a second command for it.
	Key string
	// Max is how many runs may fit; with more nothing is ordered. Zero means
	// DefaultBulkMax.
	Max    int
	DryRun bool
}

// BulkDone is what became of a Bulk.
type BulkDone struct {
	Runs []BulkRun
	// Unclear counts the runs for which the condition was an error. They get no
	// command; Problem is the first of those errors.
	Unclear int
	Problem string
}

// BulkRun is a run that fitted. Command is empty when it ended meanwhile, and in
// a dry run.
type BulkRun struct {
	Run
	Command  string
	Retry    events.RunID // OrderRetry: the run that goes on
	Replayed bool
	Refused  error // OrderEach: why it got none
}

// TooManyError says that more runs fit than were allowed; nothing was ordered.
type TooManyError struct{ Max int }

func (e *TooManyError) Error() string {
	return fmt.Sprintf("more than %d runs fit the condition; nothing was sent. Narrow it, or allow more (at most %d)", e.Max, BulkMax)
}

// BulkStore keeps many commands at once.
type BulkStore interface {
	// AddCommands inserts all of cs, but those whose run has ended and those whose
	// Key was used before; it returns what is stored, by run. ErrKeyReused when a
	// key stands for another kind of command. All of cs have a key.
	AddCommands(ctx context.Context, cs []Command) (map[events.RunID]Command, error)
	// Now is the database's clock.
	Now(ctx context.Context) (time.Time, error)
}

// Bulk orders the same for every open run that fits. The set is read once; what
// starts meanwhile is not in it. A repeat under the same key orders nothing twice.
func (s *Service) Bulk(ctx context.Context, namespace, principal string, b Bulk) (BulkDone, error) {
	if b.Max == 0 {
		b.Max = DefaultBulkMax
	}
	done, err := s.fitting(ctx, namespace, b)
	if err != nil || b.DryRun {
		return done, err
	}
	for from := 0; from < len(done.Runs); from += bulkPage {
		page := done.Runs[from:min(from+bulkPage, len(done.Runs))]
		if err := s.orderPage(ctx, namespace, principal, b, page); err != nil {
			return done, err
		}
		s.relay.Kick()
	}
	return done, nil
}

func (s *Service) orderPage(ctx context.Context, namespace, principal string, b Bulk, page []BulkRun) error {
	if b.Kind == OrderRetry {
		return s.retryPage(ctx, namespace, principal, b, page)
	}
	if b.Kind == OrderDelete {
		return s.deletePage(ctx, namespace, principal, b, page)
	}
	if b.Kind == OrderMigrate {
		return s.migratePage(ctx, namespace, principal, b, page)
	}
	commands := make([]Command, len(page))
	for i, r := range page {
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		if commands[i], err = b.command(id.String(), namespace, principal, b.Key+"/"+string(r.ID), r.ID); err != nil {
			return err
		}
	}
	stored, err := s.AddCommands(ctx, commands)
	if err != nil {
		return err
	}
	for i := range page {
		c, ok := stored[page[i].ID]
		if ok {
			page[i].Command, page[i].Replayed = c.ID, c.ID != commands[i].ID
		}
	}
	return nil
}

// retryPage retries failed runs, each once: one that was retried before keeps that
// retry.
func (s *Service) retryPage(ctx context.Context, namespace, principal string, b Bulk, page []BulkRun) error {
	for i := range page {
		c, replayed, err := s.addFork(ctx, namespace, principal, b.Key+"/"+string(page[i].ID), ForkOrder{From: page[i].ID, Retry: true, Reason: b.Reason})
		if err != nil {
			return err
		}
		page[i].Command, page[i].Retry, page[i].Replayed = c.ID, c.RunID, replayed
	}
	return nil
}

// fitting reads the open runs of a namespace and keeps those that fit.
func (s *Service) fitting(ctx context.Context, namespace string, b Bulk) (done BulkDone, err error) {
	now, err := s.Now(ctx)
	if err != nil {
		return BulkDone{}, err
	}
	f := RunFilter{Namespace: namespace, Open: true, Limit: bulkPage}
	if b.Kind == OrderMigrate {
		f.Kind = events.KindAgent
	}
	if b.Kind != OrderRetry && b.Kind != OrderDelete {
		if err := s.fittingIn(ctx, f, b, now, &done); err != nil {
			return BulkDone{}, err
		}
		return done, nil
	}
	ends := []string{events.StatusFailed, events.StatusExpired}
	if f.Open, f.Kind = false, events.KindAgent; b.Kind == OrderDelete {
		f.Kind, ends = "", []string{events.StatusCompleted, events.StatusFailed, events.StatusCancelled, events.StatusExpired}
	}
	for _, end := range ends {
		f.Statuses = []string{end}
		if err := s.fittingIn(ctx, f, b, now, &done); err != nil {
			return BulkDone{}, err
		}
	}
	return done, nil
}

func (s *Service) fittingIn(ctx context.Context, f RunFilter, b Bulk, now time.Time, done *BulkDone) error {
	for {
		page, err := s.Runs(ctx, f)
		if err != nil {
			return err
		}
		for _, r := range page {
			if b.Kind == OrderDelete && (r.ParentRunID != "" || r.Kind == KindProgram) {
				continue // it goes with the run that started it
			}
			fits, err := r.fits(b.Where, now)
			switch {
			case err != nil:
				if done.Unclear++; done.Unclear == 1 {
					done.Problem = err.Error()
				}
			case fits && len(done.Runs) == b.Max:
				return &TooManyError{Max: b.Max}
			case fits:
				done.Runs = append(done.Runs, BulkRun{Run: r})
			}
		}
		if len(page) < bulkPage {
			return nil
		}
		f.Before = page[len(page)-1].ID
	}
}

// fits decides a condition over one run.
func (r Run) fits(where *spec.Condition, now time.Time) (bool, error) {
	values := map[string]any{
		"status": r.Status, "kind": r.Kind, "name": r.Name, "agent": "", "flow": "", "labels": r.Labels, "waiting": r.Waiting,
		"principal": r.Principal, "parent": r.ParentRunID, "model_calls": r.ModelCalls, "tool_calls": r.ToolCalls, "tokens": r.Tokens,
		"attempts": r.Attempts, "age": int64(now.Sub(r.AcceptedAt).Seconds()), "idle": int64(now.Sub(r.UpdatedAt).Seconds()),
		"error": r.Error, "trigger": r.Trigger, "id": r.ID, "cost": r.CostMicroUSD,
	}
	if r.Kind == events.KindAgent || r.Kind == events.KindFlow {
		values[r.Kind] = r.Name
	}
	if r.Labels == nil {
		values["labels"] = map[string]string{}
	}
	in := make(map[string]json.RawMessage, len(values))
	for name, v := range values {
		raw, err := events.Marshal(v)
		if err != nil {
			return false, fmt.Errorf("run %s: %w", r.ID, err)
		}
		in[name] = raw
	}
	fits, err := where.Eval(in)
	if err != nil {
		return false, fmt.Errorf("run %s: %w", r.ID, err)
	}
	return fits, nil
}
