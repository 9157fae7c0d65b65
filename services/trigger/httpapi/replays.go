package httpapi

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/services/trigger"
)

func (a *api) registerReplays(d *door.Door) {
	tags := []string{"deliveries"}
	door.Register(d, huma.Operation{
		OperationID: "replay-delivery", Method: http.MethodPost, Path: "/v1/deliveries/{id}/replay",
		Summary: "Take a logged request again",
		Description: "By the webhook's present definition. A request that has its run is answered with it; force starts a new run, " +
			"whose trigger id is replay/<delivery>/... Only requests whose body was kept can be replayed: their signature was good.",
		Tags: tags,
	}, authn.Operator, a.replay)
	door.Register(d, huma.Operation{
		OperationID: "replay-deliveries", Method: http.MethodPost, Path: "/v1/deliveries/replay",
		Summary:     "Take the logged requests of one webhook and a span of time again, the oldest first",
		Description: "Bounded: when next is in the answer there is more; send the same with after.",
		Tags:        tags,
	}, authn.Operator, a.replayRange)
}

type replayInput struct {
	ID   string `path:"id" maxLength:"36"`
	Key  string `header:"Idempotency-Key" doc:"a repeated forced replay with it is the same replay"`
	Body struct {
		Force bool `json:"force,omitempty" doc:"start a new run also when the request has one"`
	}
}

type replayOutput struct{ Body replayed }

// replayed is what became of one replay.
type replayed struct {
	Of        string `json:"replay_of"`
	ID        string `json:"delivery_id,omitempty" doc:"entry of the replay; absent when the run was there already, and in a dry run"`
	Outcome   string `json:"outcome" enum:"accepted,duplicate,filtered,held,rejected,signalled"`
	Reason    string `json:"reason,omitempty"`
	Detail    string `json:"detail,omitempty"`
	RunID     string `json:"run_id,omitempty"`
	StatusURL string `json:"status_url,omitempty"`
}

func replayedBody(r trigger.Replayed) replayed {
	out := replayed{
		Of: string(r.Of), ID: string(r.ID), Outcome: r.Outcome, Reason: r.Reason, Detail: r.Detail, RunID: string(r.Accepted.RunID),
	}
	if out.RunID != "" {
		out.StatusURL = "/v1/runs/" + out.RunID
	}
	return out
}

func (a *api) replay(ctx context.Context, in *replayInput) (*replayOutput, error) {
	p, err := principal(ctx)
	if err != nil {
		return nil, err
	}
	if !canonicalUUID(in.ID) {
		return nil, noDelivery(in.ID, p)
	}
	key, err := idempotencyKey(in.Key)
	if err != nil {
		return nil, problem(err)
	}
	r, err := a.svc.Replay(ctx, trigger.DeliveryID(in.ID), trigger.Replay{Namespace: p.Namespace, Principal: p.Name, Force: in.Body.Force, Key: key})
	if err != nil {
		return nil, problem(err)
	}
	return &replayOutput{replayedBody(r)}, nil
}

type rangeInput struct {
	Key  string `header:"Idempotency-Key" doc:"a repeated forced replay with it is the same replay"`
	Body struct {
		Webhook string    `json:"webhook" minLength:"1" maxLength:"62"`
		From    time.Time `json:"from" doc:"received at or after"`
		To      time.Time `json:"to,omitzero" doc:"received before; now when absent"`
		Outcome string    `json:"outcome,omitempty" enum:"accepted,duplicate,filtered,held,rejected,signalled" doc:"rejected when absent"`
		Force   bool      `json:"force,omitempty" doc:"start a new run also for what has one"`
		DryRun  bool      `json:"dry_run,omitempty" doc:"only list what would be replayed"`
		Limit   int       `json:"limit,omitempty" minimum:"1" maximum:"500" doc:"500 when absent"`
		After   string    `json:"after,omitempty" maxLength:"36" doc:"continue behind this delivery: next of the answer before"`
	}
}

type rangeOutput struct {
	Body struct {
		DryRun bool           `json:"dry_run,omitempty"`
		Counts map[string]int `json:"counts" doc:"by outcome"`
		Items  []replayed     `json:"items"`
		Next   string         `json:"next,omitempty" doc:"there is more: send it as after"`
	}
}

func (a *api) replayRange(ctx context.Context, in *rangeInput) (*rangeOutput, error) {
	p, err := principal(ctx)
	if err != nil {
		return nil, err
	}
	key, err := idempotencyKey(in.Key)
	if err != nil {
		return nil, problem(err)
	}
	b := in.Body
	if b.After != "" && !canonicalUUID(b.After) {
		return nil, door.Error(http.StatusBadRequest, door.CodeBadRequest, "after is not a delivery's id")
	}
	if b.To.IsZero() {
		b.To = a.now()
	}
	if !b.From.Before(b.To) {
		return nil, door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, "from is not before to")
	}
	if b.Outcome == "" {
		b.Outcome = trigger.OutcomeRejected
	}
	if b.Limit == 0 {
		b.Limit = trigger.MaxReplay
	}
	filter := trigger.ReplayFilter{Webhook: b.Webhook, Outcome: b.Outcome, From: b.From, To: b.To, After: trigger.DeliveryID(b.After)}
	how := trigger.Replay{Namespace: p.Namespace, Principal: p.Name, Force: b.Force, Key: key}
	done, err := a.svc.ReplayRange(ctx, filter, how, b.Limit, b.DryRun)
	if err != nil {
		return nil, problem(err)
	}
	var out rangeOutput
	out.Body.DryRun, out.Body.Next, out.Body.Counts = b.DryRun, string(done.After), map[string]int{}
	out.Body.Items = slices.Grow([]replayed{}, len(done.Items))
	for _, r := range done.Items {
		out.Body.Counts[r.Outcome]++
		out.Body.Items = append(out.Body.Items, replayedBody(r))
	}
	return &out, nil
}
