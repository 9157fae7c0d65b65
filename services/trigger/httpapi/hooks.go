package httpapi

import (
	"encoding/json"
	"net"
	"net/http"
	"time"

	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/services/trigger"
)

// hook serves a webhook. The body is read raw and whole before anything else:
// signatures are over its bytes.
func (a *api) hook(w http.ResponseWriter, r *http.Request) {
	answer, err := a.takeHook(w, r)
	a.log(w, r, answer, err)
	if err != nil {
		door.Fail(unchallenged{w}, r, problem(err))
		return
	}
	switch {
	case answer.Reply != nil:
		writeJSON(w, http.StatusOK, answer.Reply)
	case answer.Thanks != nil || answer.Filtered || answer.Signal || answer.Items != nil:
		a.thank(w, r, answer)
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
	request := trigger.Request{Method: r.Method, RawQuery: r.URL.RawQuery, Header: r.Header, Query: r.URL.Query(), Began: time.Now(), Remote: peer(r)}
	body, done, err := door.ReadBody(r, a.svc.Bounds().MaxBody)
	defer done()
	if err != nil {
		return trigger.HookAnswer{Attempt: a.svc.Unread(r.Context(), namespace, name, request, r.ContentLength)}, err
	}
	request.Body, request.At = body, a.now()
	return a.svc.Webhook(r.Context(), namespace, name, request)
}

// log writes the request's entry, before the answer: who has the answer finds it.
func (a *api) log(w http.ResponseWriter, r *http.Request, answer trigger.HookAnswer, err error) {
	if answer.Attempt == nil {
		return
	}
	told := trigger.Answered{Status: http.StatusAccepted}
	if answer.Reply != nil {
		told.Status = http.StatusOK
	}
	if err != nil {
		p := door.From(problem(err))
		told = trigger.Answered{Status: p.Status, Code: p.Code, Detail: p.Detail}
		for _, place := range p.Errors {
			told.Detail += "; " + place.Field + ": " + place.Message
		}
	}
	if a.svc.Log(r.Context(), answer.Attempt, told) {
		w.Header().Set(headerDelivery, string(answer.Attempt.ID))
	}
}

func peer(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
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

// clock is the service's Now but in tests of signed times.
type clock func() time.Time
