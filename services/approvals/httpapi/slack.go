package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/services/approvals"
)

const (
	codeSignature = "bad_signature"
	// maxClick bounds what Slack sends of a click; it holds the message.
	maxClick = 1 << 20
	// clickTime is within what Slack shows a person as done: 3 s.
	clickTime = 2500 * time.Millisecond
)

func registerSlack(d *door.Door, a api) {
	d.RawOperation(huma.Operation{
		Method: http.MethodPost, Path: "/v1/approvals/slack", Tags: []string{"approvals"}, OperationID: "click-approval",
		Summary: "Take a person's click on a message in Slack",
		Description: "The request URL of interactivity of a Slack app. It is signed by Slack (v0, over the raw body, at most 5 minutes old) with the signing secret of the channel that the message " +
			"went to, and the Slack user is one of the channel's people. 200: the decision is stored, or the person is told in Slack why it took no effect; the same click again changes nothing. " +
			"400 bad_signature: it is not from Slack. 503: nothing is known to be stored; clicking again is safe.",
		MaxBodyBytes: maxClick,
		RequestBody:  &huma.RequestBody{Description: "as Slack sends it", Content: map[string]*huma.MediaType{"application/x-www-form-urlencoded": {Schema: &huma.Schema{}}}},
		Responses:    map[string]*huma.Response{"200": {Description: "taken"}},
	}, door.Public, door.JSONHandler(a.click))
}

// click answers POST /v1/approvals/slack.
func (a api) click(w http.ResponseWriter, r *http.Request) error {
	body, done, err := door.ReadBody(r, maxClick)
	defer done()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), clickTime)
	defer cancel()
	switch err := a.service.Click(ctx, r.Header, body); {
	case errors.Is(err, approvals.ErrSignature):
		return door.Error(http.StatusBadRequest, codeSignature, "the click is not signed as its channel's clicks are")
	case err != nil:
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}
