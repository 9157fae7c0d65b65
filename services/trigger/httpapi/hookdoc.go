package httpapi

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/door"
)

func (a *api) registerHooks(d *door.Door) {
	hook := func(id, path string, params ...*huma.Param) {
		d.RawOperation(huma.Operation{
			OperationID: id, Method: http.MethodPost, Path: path,
			Summary: "Take a webhook's request",
			Description: "Authenticated as the webhook's provider signs: over the body's bytes, after decompression when it comes with Content-Encoding: gzip. " +
				"Answered once the delivery is stored. A repeat of the same delivery is answered with the same run and Idempotency-Replayed: true.",
			Parameters:  params,
			RequestBody: &huma.RequestBody{Description: "as the provider sends it", Content: map[string]*huma.MediaType{"*/*": {Schema: &huma.Schema{}}}},
			Responses: map[string]*huma.Response{
				"200": {Description: "A handshake or ping of the provider, which starts nothing; or as the webhook's provider wants to be thanked"},
				"202": {Description: "The delivery is stored", Content: map[string]*huma.MediaType{"application/json": {Schema: door.SchemaOf[started](d)}}},
			},
			MaxBodyBytes: door.OwnBody,
			Tags:         []string{"webhooks"},
		}, door.Public, http.HandlerFunc(a.hook))
	}
	name := door.PathText("name", "of the webhook")
	hook("hook", "/hooks/{name}", name)
	hook("hook-of-namespace", "/hooks/{namespace}/{name}", door.PathText("namespace", "of the webhook"), name)
}
