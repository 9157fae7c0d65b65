package notify

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/internal/stdwebhooks"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/approvals"
)

// Webhook posts to a program, signed as Standard Webhooks has it. The webhook-id
// is the message's, the same in every attempt, so that a receiver can drop a
// repeat.
type Webhook struct{ Config }

var _ approvals.Channel = (*Webhook)(nil)

// Runs implements approvals.Channel.
func (w *Webhook) Runs(c *spec.Channel) bool { return c.Webhook != nil }

// Repeats implements approvals.Channel.
func (w *Webhook) Repeats() bool { return true }

// posted is the body of a message.
type posted struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Title     string    `json:"title"`
	Data      any       `json:"data"`
}

// Send implements approvals.Channel.
func (w *Webhook) Send(ctx context.Context, c *spec.Channel, m approvals.Message) approvals.Delivery {
	var keys []stdwebhooks.Key
	for _, ref := range c.Webhook.Secrets {
		secret, err := w.secret("webhook.secrets", ref)
		if err != nil {
			return later(err)
		}
		key, err := stdwebhooks.ParseKey(secret)
		if err != nil {
			return later(err)
		}
		keys = append(keys, key)
	}
	url := c.Webhook.URL.Resolve(w.LookupEnv)
	if url == "" {
		return later(errors.New("webhook.url: environment variable " + c.Webhook.URL.Env + " is not set"))
	}
	body, err := events.Marshal(posted{Type: m.Type, Timestamp: m.At.UTC(), Title: m.Title, Data: m.Data})
	if err != nil {
		return approvals.Delivery{Verdict: approvals.Refused, Problem: err.Error()}
	}
	reach, err := w.reach(c)
	if err != nil {
		return later(err)
	}
	req := egress.Request{URL: url, Header: http.Header{}, Body: body, Reach: reach}
	req.Header.Set("Content-Type", "application/json")
	if err := stdwebhooks.Sign(req.Header, keys, m.ID, time.Now(), body); err != nil {
		return later(err)
	}
	resp, d, ok := w.post(ctx, req)
	if !ok {
		return d
	}
	return judge(resp)
}
