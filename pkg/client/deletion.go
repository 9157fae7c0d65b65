package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// DeleteRequest says how a run is to be deleted.
type DeleteRequest struct {
	Reason string // kept with the fact that it was deleted
	DryRun bool   // only say how many runs would go
}

// Deleting is an order to delete a run.
type Deleting struct {
	RunID events.RunID `json:"run_id"`
	Runs  int          `json:"runs"` // that go: the run and all that are below it
}

// Delete asks to delete a run that has ended, with all runs below it. It is carried
// out soon; from then on reading the run is a 410. A run that has not ended, or that
// another run started, is a 409.
func (c *Client) Delete(ctx context.Context, id events.RunID, r DeleteRequest) (Deleting, error) {
	q := url.Values{}
	set(q, "reason", r.Reason)
	if r.DryRun {
		q.Set("dry_run", "true")
	}
	var out Deleting
	_, err := c.do(ctx, call{method: http.MethodDelete, path: "/v1/runs/" + url.PathEscape(string(id)), query: q, idempotent: true}, &out)
	return out, err
}

// Deletion is what is known of a deleted run.
type Deletion struct {
	RunID     events.RunID `json:"run_id"`
	Root      events.RunID `json:"root_run_id"` // the run with which it went
	Kind      string       `json:"kind"`
	Name      string       `json:"name"`
	Status    string       `json:"status"` // how it had ended
	EndedAt   time.Time    `json:"ended_at"`
	DeletedAt time.Time    `json:"deleted_at"`
	DeletedBy string       `json:"deleted_by"` // "retention" when its time was over
	Reason    string       `json:"reason,omitempty"`
}

// Deletions lists deleted runs, the newest deletion first.
func (c *Client) Deletions(ctx context.Context, p PageRequest) (Page[Deletion], error) {
	return get[Page[Deletion]](ctx, c, "/v1/deletions", p.values())
}
