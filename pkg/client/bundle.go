package client

import (
	"context"
	"encoding/json"
	"net/url"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Bundle is everything about a run in one bounded JSON document: state, the end of
// the journal, what parked it, effects, questions, processes and what to do next. It
// is there for a run whose journal cannot be read, too.
func (c *Client) Bundle(ctx context.Context, id events.RunID) (json.RawMessage, error) {
	return get[json.RawMessage](ctx, c, "/v1/runs/"+url.PathEscape(string(id))+"/bundle", nil)
}
