package client

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Messages is what was said to a run's model.
type Messages struct {
	All    int       `json:"all"`
	Unread int       `json:"unread"` // that no request to the model has had
	Newest []Message `json:"newest"` // at most 20, the newest first
}

// Message is one text to a run's model.
type Message struct {
	Seq       int64     `json:"seq"`
	Principal string    `json:"principal"`
	Text      string    `json:"text"` // its first 500 characters
	At        time.Time `json:"at"`
	Read      bool      `json:"read"`
}

// Say gives the model of a run a text of at most events.MessageBytes, which it reads
// in its next request. An empty key means a fresh one, which covers the repeats of
// this one call; the same key is the same message, from any process.
func (c *Client) Say(ctx context.Context, id events.RunID, text, key string) (Commanded, error) {
	var out Commanded
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/v1/runs/" + url.PathEscape(string(id)) + "/messages", body: map[string]string{"text": text},
		key: cmp.Or(key, newKey()), idempotent: true}, &out)
	return out, err
}
