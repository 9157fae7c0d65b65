package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

// ConcurrencyKey is how one concurrency key stands.
type ConcurrencyKey struct {
	Key     string         `json:"key" doc:"as it is shown: at most 120 characters"`
	Name    string         `json:"name,omitempty" doc:"of the agent or flow; absent for a key of the namespace"`
	Max     int64          `json:"max" doc:"places, as the newest run under it says"`
	Held    int64          `json:"held" doc:"places that are taken"`
	Holders []events.RunID `json:"holders" doc:"at most ten, the oldest first"`
	Waiting int64          `json:"waiting"`
	Next    []events.RunID `json:"next" doc:"at most ten that wait, in their order"`
}

type concurrencyInput struct {
	door.PageInput
	Name string `query:"name" maxLength:"200" doc:"only keys of this agent or flow"`
}

type concurrencyOutput struct{ Body door.Page[ConcurrencyKey] }

func wireKey(k console.ConcurrencyKey) ConcurrencyKey {
	return ConcurrencyKey{Key: k.Key, Name: k.Name, Max: k.Max, Held: k.Held, Holders: k.Holders, Waiting: k.Waiting, Next: k.Next}
}

func (a *api) concurrency() {
	door.Register(a.door, huma.Operation{
		OperationID: "list-concurrency", Method: http.MethodGet, Path: "/v1/concurrency", Summary: "List concurrency keys with their holders and queues", Tags: []string{"system"},
		Description: "The longest queue first; a key is here while a run is open under it. Queues move: a key whose queue changes between two pages may come twice or not at all.",
	}, authn.Viewer, func(ctx context.Context, in *concurrencyInput) (*concurrencyOutput, error) {
		who, _ := authn.FromContext(ctx)
		var after console.KeyPlace
		if _, err := door.DecodeCursor(in.Cursor, &after); err != nil {
			return nil, err
		}
		found, err := a.console.Concurrency(ctx, who.Namespace, in.Name, after, in.Limit+1)
		if err != nil {
			return nil, err
		}
		return &concurrencyOutput{door.PageOf(found, in.Limit, func(k console.ConcurrencyKey) any { return k.Place() }, wireKey)}, nil
	})
}
