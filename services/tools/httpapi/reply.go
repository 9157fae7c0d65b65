package httpapi

import (
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/services/tools"
)

// Codes of answers to callbacks.
const (
	codeSignature    = "bad_signature"
	codeOtherOutcome = "other_outcome"
)

// maxReplyBody bounds what is posted, as any answer of a tool is bounded.
const maxReplyBody = 8 << 20

// registerReplies adds the address at which other systems post results. The
// token in it is the proof; the tool's definition may want a signature too.
func registerReplies(d *door.Door, a api) {
	d.RawOperation(huma.Operation{
		Method: http.MethodPost, Path: tools.ReplyPath + "{token}", Tags: []string{"tools"}, OperationID: "take-callback",
		Summary: "Take the result of a tool call from the system that accepted it",
		Description: "The address goes out with the call and takes one result, whatever its type. 200: the result is stored, and reaches the run by itself; the same bytes again are 200 too. " +
			"404: there is no such address. 403 bad_signature: the tool's definition wants another signature. 422: it does not say whether it happened. " +
			"409 other_outcome: another result was taken before, or the call has ended in another way; nothing is changed.",
		Parameters:   []*huma.Param{door.PathText("token", "as the call had it")},
		MaxBodyBytes: door.OwnBody,
		RequestBody:  &huma.RequestBody{Description: "the result", Content: map[string]*huma.MediaType{"*/*": {Schema: &huma.Schema{}}}},
		Responses:    map[string]*huma.Response{"200": door.JSONAnswer("the result is stored", door.SchemaOf[replyAnswer](d))},
	}, door.Public, door.JSONHandler(a.reply))
}

type replyAnswer struct {
	Status string `json:"status" enum:"stored"`
}

// reply answers POST /v1/callbacks/{token}.
func (a api) reply(w http.ResponseWriter, r *http.Request) error {
	unknown := door.NotFound("there is no such callback")
	token := r.PathValue("token")
	if len(token) != tools.TokenBytes {
		return unknown
	}
	body, done, err := door.ReadBody(r, maxReplyBody)
	defer done()
	if err != nil {
		return err
	}
	header := r.Header.Clone()
	header.Del("Content-Encoding") // it is unpacked
	switch err := a.service.Reply(r.Context(), tools.Reply{Token: token, Header: header, Body: body}); {
	case errors.Is(err, tools.ErrNotFound):
		return unknown
	case errors.Is(err, tools.ErrReplySignature):
		return door.Error(http.StatusForbidden, codeSignature, "the callback is not signed as the tool's definition says")
	case errors.Is(err, tools.ErrBadReply):
		return door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, "the body does not say whether it happened, by the tool's definition; send another one")
	case errors.Is(err, tools.ErrReplyTaken):
		return door.Error(http.StatusConflict, codeOtherOutcome, "another result was taken before, or the call has ended in another way; this one is kept and changes nothing")
	case err != nil:
		return err
	}
	door.AnswerJSON(w, r, http.StatusOK, replyAnswer{Status: "stored"})
	return nil
}
