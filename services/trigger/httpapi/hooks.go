package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/services/trigger"
)

// hook serves a webhook. The body is read raw and whole before anything else:
// signatures are over its bytes.
func (a *api) hook(w http.ResponseWriter, r *http.Request) {
	answer, err := a.takeHook(w, r)
	if err != nil {
		door.Fail(unchallenged{w}, r, problem(err))
		return
	}
	switch {
	case answer.Reply != nil:
		writeJSON(w, http.StatusOK, answer.Reply)
	default:
		if answer.Repeat {
			w.Header().Set(headerReplayed, "true")
		}
		started := startedBody(answer.Accepted)
		w.Header().Set("Location", started.StatusURL)
		body, err := json.Marshal(started)
		if err != nil {
			door.Fail(w, r, err)
			return
		}
		writeJSON(w, http.StatusAccepted, body)
	}
}

func (a *api) takeHook(w http.ResponseWriter, r *http.Request) (trigger.HookAnswer, error) {
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	if namespace == "" {
		namespace = trigger.DefaultNamespace
	}
	body, err := readBody(w, r)
	if err != nil {
		return trigger.HookAnswer{}, err
	}
	return a.svc.Webhook(r.Context(), namespace, name, trigger.Request{
		Header: r.Header, Query: r.URL.Query(), Body: body, At: a.now(),
	})
}

// readBody reads at most trigger.MaxBody bytes.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > trigger.MaxBody {
		return nil, tooLarge(fmt.Sprintf("the body has %d bytes", r.ContentLength))
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, trigger.MaxBody))
	if big, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge(fmt.Sprintf("the body has more than %d bytes", big.Limit))
	}
	return body, err
}

func tooLarge(what string) error {
	return trigger.Refuse(trigger.CodeTooLarge, "%s, the limit is %d", what, trigger.MaxBody)
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the sender is gone when this fails
}

// unchallenged answers 401 without asking for a bearer token: a webhook's sender
// signs, and has no token to send.
type unchallenged struct{ http.ResponseWriter }

func (u unchallenged) WriteHeader(status int) {
	u.Header().Del("WWW-Authenticate")
	u.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the connection.
func (u unchallenged) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// clock is time.Now but in tests of signed times.
type clock func() time.Time
