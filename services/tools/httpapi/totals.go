package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/services/tools"
)

func registerTotals(d *door.Door, a api) {
	door.Register(d, huma.Operation{
		Method: http.MethodGet, Path: "/v1/effects/totals", Tags: []string{"effects"}, OperationID: "count-effects",
		Summary: "Count side effects: what is in doubt and under way now, and what the ledger kept from happening twice in 24 hours",
	}, authn.Viewer, a.totals)
}

// Totals counts the effects of a namespace.
type Totals struct {
	InDoubt   int64 `json:"in_doubt" doc:"now, and nobody has settled them"`
	UnderWay  int64 `json:"under_way" doc:"now: begun, waiting for another attempt, or awaiting a result"`
	Held      int64 `json:"held" doc:"now, by a stop"`
	Twice     int64 `json:"may_have_happened_twice" doc:"ever: an outcome that came too late to count says, or does not deny, that it happened"`
	Happened  int64 `json:"happened" doc:"of those begun in the last 24 hours"`
	Not       int64 `json:"did_not_happen" doc:"of those begun in the last 24 hours"`
	Prevented int64 `json:"duplicates_prevented" doc:"calls of the last 24 hours that were answered with what another call under the same key did, and did nothing"`
	Refused   int64 `json:"mismatches_refused" doc:"calls of the last 24 hours that had the key of something else and did nothing"`
}

type totalsOutput struct{ Body Totals }

func (a api) totals(ctx context.Context, _ *struct{}) (*totalsOutput, error) {
	who, _ := authn.FromContext(ctx)
	t, err := a.service.Ledger().Totals(ctx, who.Namespace)
	if err != nil {
		return nil, err
	}
	return &totalsOutput{Totals(t)}, nil
}

// maxSharers bounds the calls that are shown with an effect.
const maxSharers = 500

// SharedCall is a call of a run that shares an effect.
type SharedCall struct {
	CallID    string    `json:"call_id"`
	RunID     string    `json:"run_id"`
	Run       string    `json:"run,omitempty" doc:"name of what the run executes; absent when the run is not there"`
	RunStatus string    `json:"run_status,omitempty"`
	Status    string    `json:"status" enum:"open,succeeded,failed,unknown,mismatch,expired,revoked"`
	Opened    bool      `json:"opened,omitempty" doc:"it opened the effect and is the one that acts"`
	Replayed  bool      `json:"replayed,omitempty" doc:"it was answered with what another call did"`
	YesBy     string    `json:"approved_by,omitempty"`
	YesID     string    `json:"approval_id,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

func (a api) sharers(ctx context.Context, e tools.Effect, limit int) ([]SharedCall, error) {
	found, err := a.service.Ledger().Sharers(ctx, e.Namespace, e.ID, limit)
	if err != nil {
		return nil, err
	}
	var out []SharedCall
	for _, c := range found {
		out = append(out, SharedCall{CallID: string(c.CallID), RunID: string(c.RunID), Run: c.RunName, RunStatus: c.RunStatus, Status: c.Status, Opened: c.Opened,
			Replayed: c.Replayed, YesBy: c.YesBy, YesID: string(c.YesID), CreatedAt: c.CreatedAt.UTC(), UpdatedAt: c.UpdatedAt.UTC()})
	}
	return out, nil
}
