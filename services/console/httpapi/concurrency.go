package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
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
	Name string `query:"name" maxLength:"200" doc:"only keys of this agent or flow"`
}

type concurrencyOutput struct {
	Body struct {
		Items []ConcurrencyKey `json:"items" doc:"the longest queue first, at most 500; a key is here while a run is open under it"`
	}
}

func (a *api) concurrency() {
	door.Register(a.door, huma.Operation{
		OperationID: "list-concurrency", Method: http.MethodGet, Path: "/v1/concurrency", Summary: "List concurrency keys with their holders and queues", Tags: []string{"system"},
	}, authn.Viewer, func(ctx context.Context, in *concurrencyInput) (*concurrencyOutput, error) {
		who, _ := authn.FromContext(ctx)
		found, err := a.console.Concurrency(ctx, who.Namespace, in.Name, 500)
		if err != nil {
			return nil, err
		}
		out := &concurrencyOutput{}
		out.Body.Items = make([]ConcurrencyKey, 0, len(found))
		for _, k := range found {
			out.Body.Items = append(out.Body.Items, ConcurrencyKey(k))
		}
		return out, nil
	})
}
