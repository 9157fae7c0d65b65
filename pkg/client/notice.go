package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Notice is one message to people in a channel, and what became of it.
type Notice struct {
	NoticeID    events.NoticeID   `json:"notice_id"`
	Namespace   string            `json:"namespace"`
	Channel     string            `json:"channel"`
	Reason      string            `json:"reason"`
	Title       string            `json:"title"`
	RunID       events.RunID      `json:"run_id,omitempty"`
	ApprovalID  events.ApprovalID `json:"approval_id,omitempty"`
	Person      string            `json:"person,omitempty"` // to whom alone it goes
	State       string            `json:"state"`            // gone, due, sending, delivered, failed, unknown
	Attempts    int               `json:"attempts"`
	Problem     string            `json:"problem,omitempty"`
	At          time.Time         `json:"at"`
	CreatedAt   time.Time         `json:"created_at"`
	NextAt      time.Time         `json:"next_attempt_at,omitzero"`
	DeliveredAt time.Time         `json:"delivered_at,omitzero"`
}

// NoticeFilter narrows a list of notices. Empty fields do not narrow.
type NoticeFilter struct {
	State, Channel string
	Run            events.RunID
}

// Notices lists what people were told, newest first.
func (c *Client) Notices(ctx context.Context, f NoticeFilter, p PageRequest) (Page[Notice], error) {
	q := p.values()
	set(q, "state", f.State)
	set(q, "channel", f.Channel)
	set(q, "run", string(f.Run))
	return get[Page[Notice]](ctx, c, "/v1/notices", q)
}

// ResendNotice sends a notice again that is failed, or, when it may double, one that
// is unknown: people may then read it twice. It is asked once: after an error look
// at the notice's state before asking again.
func (c *Client) ResendNotice(ctx context.Context, id events.NoticeID, mayDouble bool) (n Notice, err error) {
	body := struct {
		MayDouble bool `json:"may_double"`
	}{mayDouble}
	_, err = c.do(ctx, call{method: http.MethodPost, path: "/v1/notices/" + url.PathEscape(string(id)) + "/resend", body: body}, &n)
	return n, err
}
