package door

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// ReadJSON reads the body of a raw operation, which has OwnBody, into T: one JSON object of at most
// limit bytes, without members that T does not have and without a name twice.
// json.RawMessage members keep every digit, which a validation through any
// would not take. A problem says what is wrong.
func ReadJSON[T any](r *http.Request, limit int64) (T, error) {
	var v T
	body, done, err := ReadBody(r, limit)
	defer done()
	if err != nil {
		return v, err
	}
	bad := func(text string) (T, error) {
		return v, Error(http.StatusUnprocessableEntity, CodeInvalidInput, "the body "+text).At("body", text)
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return bad("is empty; send a JSON object")
	}
	if _, err := events.Canonical(body); err != nil {
		return bad("is not JSON that can be kept: " + err.Error())
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		return bad("does not fit: " + strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return bad("holds more than one value")
	}
	return v, nil
}

// AnswerJSON writes v as the answer of a raw operation, or the problem of not
// being able to.
func AnswerJSON(w http.ResponseWriter, r *http.Request, status int, v any) {
	body, err := events.Marshal(v)
	if err != nil {
		Fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the caller is gone: nobody to tell
}

// JSONHandler is a raw operation that answers with an error or by itself within
// the time that every operation has.
func JSONHandler(h func(w http.ResponseWriter, r *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), DefaultTimeout)
		defer cancel()
		r = r.WithContext(ctx)
		if err := h(w, r); err != nil {
			Fail(w, r, err)
		}
	})
}

// JSONBody describes the body that ReadJSON reads.
func JSONBody(schema *huma.Schema) *huma.RequestBody {
	return &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}
}

// JSONAnswer describes an answer.
func JSONAnswer(doc string, schema *huma.Schema) *huma.Response {
	return &huma.Response{Description: doc, Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}
}
