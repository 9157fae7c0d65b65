package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

// Notice is one message to people as the door shows it.
type Notice struct {
	NoticeID    string    `json:"notice_id"`
	Namespace   string    `json:"namespace"`
	Channel     string    `json:"channel"`
	Reason      string    `json:"reason" doc:"completed, failed, expired, needs_attention, budget or approval_expired; approval: something waits for people; digest: what waits, once a day"`
	Title       string    `json:"title" doc:"as people read it"`
	RunID       string    `json:"run_id,omitempty"`
	ApprovalID  string    `json:"approval_id,omitempty" doc:"of the request that it tells of, or that nobody answered"`
	Person      string    `json:"person,omitempty" doc:"to whom alone it goes"`
	State       string    `json:"state" enum:"due,sending,delivered,failed,unknown,gone" doc:"gone: the request ended before anybody was told. failed: refused for good, or not taken within 24 hours. unknown: it may have reached people, and is not sent again"`
	Attempts    int       `json:"attempts"`
	Problem     string    `json:"problem,omitempty" doc:"of the last attempt"`
	At          time.Time `json:"at" doc:"when it happened"`
	CreatedAt   time.Time `json:"created_at"`
	NextAt      time.Time `json:"next_attempt_at,omitzero"`
	DeliveredAt time.Time `json:"delivered_at,omitzero"`
}

type noticesInput struct {
	door.PageInput
	State   string `query:"state" enum:"due,sending,delivered,failed,unknown,gone"`
	Channel string `query:"channel" doc:"name of a channel"`
	Run     string `query:"run" doc:"id of a run"`
}

type noticesOutput struct{ Body door.Page[Notice] }

func (a api) notices(ctx context.Context, in *noticesInput) (*noticesOutput, error) {
	if in.Run != "" && !events.RunID(in.Run).Valid() {
		return nil, door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, "the id of the run is not valid").At("query.run", "not a run id")
	}
	who, _ := authn.FromContext(ctx)
	f := approvals.NoticeFilter{Namespace: who.Namespace, State: in.State, Channel: in.Channel, RunID: events.RunID(in.Run), Limit: in.Limit + 1}
	var before approvals.NoticePosition
	if ok, err := door.DecodeCursor(in.Cursor, &before); err != nil {
		return nil, err
	} else if ok {
		f.Before = &before
	}
	found, err := a.service.Notices(ctx, f)
	if err != nil {
		return nil, err
	}
	return &noticesOutput{door.PageOf(found, in.Limit, func(n approvals.Notice) any {
		return approvals.NoticePosition{CreatedAt: n.CreatedAt, ID: n.NoticeID}
	}, showNotice)}, nil
}

func showNotice(n approvals.Notice) Notice {
	out := Notice{
		NoticeID: string(n.NoticeID), Namespace: n.Namespace, Channel: n.Channel, Reason: n.Reason, Title: approvals.Tell(n.Notice).Title,
		RunID: string(n.RunID), ApprovalID: string(n.ApprovalID), Person: n.Person, State: n.State, Attempts: n.Attempts, Problem: n.Problem,
		At: n.At.UTC(), CreatedAt: n.CreatedAt, DeliveredAt: n.DeliveredAt,
	}
	if n.State == approvals.NoticeDue {
		out.NextAt = n.NextAt
	}
	return out
}
