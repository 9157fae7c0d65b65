package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

// Codes of what stands in the way of a deletion, and of what was deleted.
const (
	CodeDeleted  = "deleted"
	CodeRunStays = "run_stays"
)

type deleteInput struct {
	RunPath
	DryRun bool   `query:"dry_run" doc:"only say how many runs would go"`
	Reason string `query:"reason" maxLength:"1000" doc:"kept with the fact that it was deleted"`
}

type deleteOutput struct {
	Body struct {
		RunID events.RunID `json:"run_id"`
		Runs  int          `json:"runs" doc:"how many runs go: this one and all that are below it"`
	}
}

// Deletion is what is known of a deleted run.
type Deletion struct {
	RunID     events.RunID `json:"run_id"`
	Root      events.RunID `json:"root_run_id" doc:"the run with which it went"`
	Kind      string       `json:"kind" enum:"agent,flow"`
	Name      string       `json:"name"`
	Status    string       `json:"status" doc:"how it had ended"`
	EndedAt   time.Time    `json:"ended_at"`
	DeletedAt time.Time    `json:"deleted_at"`
	DeletedBy string       `json:"deleted_by" doc:"who ordered it; retention when its time was over"`
	Reason    string       `json:"reason,omitempty"`
}

func wireDeletion(d console.Deletion) Deletion {
	return Deletion{RunID: d.RunID, Root: d.Root, Kind: d.Kind, Name: d.Name, Status: d.Status, EndedAt: d.EndedAt, DeletedAt: d.DeletedAt, DeletedBy: d.By, Reason: d.Reason}
}

type deletionsInput struct{ door.PageInput }

type deletionsOutput struct{ Body door.Page[Deletion] }

type deletionCursor struct {
	Before int64 `json:"n"`
}

func (a *api) deletions() {
	door.Register(a.door, huma.Operation{
		OperationID: "delete-run", Method: http.MethodDelete, Path: "/v1/runs/{id}", Summary: "Delete a run that has ended, with all runs below it", Tags: []string{"runs"},
		Description: "202 means that the order is kept and will be carried out once nothing is owed for the run any more (the post of its end, a notice). " +
			"409 says what has to end first. The ledger of side effects stays.",
		DefaultStatus: http.StatusAccepted,
	}, authn.Operator, func(ctx context.Context, in *deleteInput) (*deleteOutput, error) {
		p, _ := authn.FromContext(ctx)
		runs, err := a.console.OrderDeletion(ctx, console.DeletionOrder{RunID: in.ID, Namespace: p.Namespace, Principal: p.Name, Reason: in.Reason, DryRun: in.DryRun})
		if err != nil {
			return nil, problem(err, "run %s", in.ID)
		}
		out := &deleteOutput{}
		out.Body.RunID, out.Body.Runs = in.ID, runs
		return out, nil
	})
	door.Register(a.door, huma.Operation{
		OperationID: "list-deletions", Method: http.MethodGet, Path: "/v1/deletions", Summary: "List runs that were deleted, the newest deletion first", Tags: []string{"runs"},
		Description: "That a run was deleted, when and by whom is kept for 400 days.",
	}, authn.Viewer, func(ctx context.Context, in *deletionsInput) (*deletionsOutput, error) {
		p, _ := authn.FromContext(ctx)
		var at deletionCursor
		if _, err := door.DecodeCursor(in.Cursor, &at); err != nil {
			return nil, err
		}
		found, err := a.console.Deletions(ctx, p.Namespace, at.Before, in.Limit+1)
		if err != nil {
			return nil, err
		}
		return &deletionsOutput{door.PageOf(found, in.Limit, func(d console.Deletion) any { return deletionCursor{d.N} }, wireDeletion)}, nil
	})
}
