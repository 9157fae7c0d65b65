package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Delivery is something that came in: a request at a webhook, whatever became
// of it, or a start by the API, a schedule or a message.
type Delivery struct {
	DeliveryID string       `json:"delivery_id"`
	Namespace  string       `json:"namespace"`
	Source     string       `json:"source"` // webhook, api, schedule, event
	SourceName string       `json:"source_name"`
	Outcome    string       `json:"outcome"`          // accepted, duplicate, filtered, held, rejected, signalled
	Reason     string       `json:"reason,omitempty"` // stable: bad_signature, schema, ...
	Detail     string       `json:"detail,omitempty"` // the reason for people
	DedupeKey  string       `json:"dedupe_key,omitempty"`
	RunID      events.RunID `json:"run_id,omitempty"` // of a duplicate, the run of the first
	StatusURL  string       `json:"status_url,omitempty"`
	ReplayOf   string       `json:"replay_of,omitempty"` // the delivery that this one replayed
	Principal  string       `json:"principal,omitempty"` // who started it by the API, or replayed it
	// Of what it started.
	Kind        string            `json:"kind,omitempty"` // agent or flow
	Name        string            `json:"name,omitempty"`
	Digest      events.Digest     `json:"digest,omitempty"`
	Input       json.RawMessage   `json:"input,omitempty"` // absent in lists
	Labels      map[string]string `json:"labels,omitempty"`
	Held        bool              `json:"held,omitempty"` // kept back while its webhook is paused
	AcceptedAt  time.Time         `json:"accepted_at,omitzero"`
	AnnouncedAt time.Time         `json:"announced_at,omitzero"`
	LandedAt    time.Time         `json:"landed_at,omitzero"` // the runner has it
	ReceivedAt  time.Time         `json:"received_at"`
	Request     *HookRequest      `json:"request,omitempty"` // nil: it came another way, or is older than the log
}

// HookRequest is what the log has of one request at a webhook.
type HookRequest struct {
	WebhookDigest events.Digest `json:"webhook_digest,omitempty"`
	Status        int           `json:"status,omitempty"` // answered; absent for replays
	TookUs        int64         `json:"took_us"`
	Remote        string        `json:"remote,omitempty"`
	ContentType   string        `json:"content_type,omitempty"`
	EventID       string        `json:"event_id,omitempty"` // the provider's
	Count         int64         `json:"count"`              // how many requests it stands for
	BodyBytes     int64         `json:"body_bytes"`
	BodyDigest    events.Digest `json:"body_digest,omitempty"`
	// The rest is absent in lists. Secret headers are redacted.
	Headers    map[string][]string `json:"headers,omitempty"`
	Query      map[string][]string `json:"query,omitempty"`
	BodyKept   bool                `json:"body_kept,omitempty"` // it can be replayed
	Body       string              `json:"body,omitempty"`
	BodyBase64 []byte              `json:"body_base64,omitempty"` // when it is not text
}

// DeliveryFilter narrows a list of deliveries. Zero fields do not narrow.
type DeliveryFilter struct {
	Webhook, Outcome string
	Since            time.Time
	Until            time.Time // received before
}

// Deliveries lists what came in, newest first.
func (c *Client) Deliveries(ctx context.Context, f DeliveryFilter, p PageRequest) (Page[Delivery], error) {
	q := p.values()
	set(q, "webhook", f.Webhook)
	set(q, "outcome", f.Outcome)
	if !f.Since.IsZero() {
		q.Set("since", f.Since.UTC().Format(time.RFC3339Nano))
	}
	if !f.Until.IsZero() {
		q.Set("until", f.Until.UTC().Format(time.RFC3339Nano))
	}
	return get[Page[Delivery]](ctx, c, "/v1/deliveries", q)
}

// Delivery reads one delivery.
func (c *Client) Delivery(ctx context.Context, id string) (Delivery, error) {
	return get[Delivery](ctx, c, "/v1/deliveries/"+url.PathEscape(id), nil)
}

// Replayed is what became of one replay.
type Replayed struct {
	ReplayOf   string       `json:"replay_of"`
	DeliveryID string       `json:"delivery_id,omitempty"` // empty: the run was there already
	Outcome    string       `json:"outcome"`
	Reason     string       `json:"reason,omitempty"`
	Detail     string       `json:"detail,omitempty"`
	RunID      events.RunID `json:"run_id,omitempty"`
	StatusURL  string       `json:"status_url,omitempty"`
}

// Replay takes a request of the log again. A request that has its run is
// answered with it, unless force: then it starts a new one. However often this
// call is repeated, it starts one.
func (c *Client) Replay(ctx context.Context, id string, force bool) (Replayed, error) {
	return post[Replayed](ctx, c, "/v1/deliveries/"+url.PathEscape(id)+"/replay", map[string]bool{"force": force})
}

// ReplayRange chooses the requests of a webhook to replay, oldest first.
type ReplayRange struct {
	Webhook string    `json:"webhook"`
	From    time.Time `json:"from"`
	To      time.Time `json:"to,omitzero"`       // zero: now
	Outcome string    `json:"outcome,omitempty"` // empty: rejected
	Force   bool      `json:"force,omitempty"`
	DryRun  bool      `json:"dry_run,omitempty"` // only list them
	Limit   int       `json:"limit,omitempty"`   // zero: 500, which is the most
	After   string    `json:"after,omitempty"`   // continue: Next of the answer before
}

// RangeReplayed is what became of a part of a range.
type RangeReplayed struct {
	DryRun bool           `json:"dry_run,omitempty"`
	Counts map[string]int `json:"counts"` // by outcome
	Items  []Replayed     `json:"items"`
	Next   string         `json:"next,omitempty"` // there is more: send it as After
}

// ReplayRange replays a bounded part of a range.
func (c *Client) ReplayRange(ctx context.Context, r ReplayRange) (RangeReplayed, error) {
	return post[RangeReplayed](ctx, c, "/v1/deliveries/replay", r)
}

// HookTest is a request to send to a webhook.
type HookTest struct {
	Body        string            `json:"body"`
	ContentType string            `json:"content_type,omitempty"` // empty: application/json
	Headers     map[string]string `json:"headers,omitempty"`
	Query       map[string]string `json:"query,omitempty"`
}

// HookTested is the answer that the sender would have seen.
type HookTested struct {
	Status     int               `json:"status"`
	Headers    map[string]string `json:"headers"`
	Body       string            `json:"body"`
	RunID      events.RunID      `json:"run_id,omitempty"`
	DeliveryID string            `json:"delivery_id,omitempty"` // its entry in the log
}

// TestWebhook has the server sign a request as the webhook's sender does and send
// it to itself. What is accepted starts a run, so it is not repeated by itself.
func (c *Client) TestWebhook(ctx context.Context, name string, t HookTest) (HookTested, error) {
	var out HookTested
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/v1/webhooks/" + url.PathEscape(name) + "/test", body: t}, &out)
	return out, err
}
