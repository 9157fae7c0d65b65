package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/services/runner"
)

// maxProblem bounds what is read of an error's body.
const maxProblem = 64 << 10

// bounded cuts the bodies of errors, which SDKs read whole.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(r)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(response.Body, maxProblem), response.Body}
	}
	return response, err
}

// requestError sorts a request that gave no answer. response is what the
// provider refused it with; nil when there was none.
func requestError(ctx context.Context, err error, response *http.Response) *runner.ModelError {
	if response == nil || response.StatusCode < http.StatusBadRequest {
		if open, ok := errors.AsType[*egress.OpenError](err); ok {
			return &runner.ModelError{Code: "circuit_open", Retry: true, RetryAfter: open.Wait, Unasked: true, Err: open}
		}
		code := "connection"
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(ctx.Err(), context.DeadlineExceeded) {
			code = "timeout"
		}
		return &runner.ModelError{Code: code, Retry: true, Unknown: code == "timeout", Err: err}
	}
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxProblem)) // the SDK keeps what it read
	return refused(response.StatusCode, response.Header, problemOf(body))
}

// problem is what a provider says about a failure. Its members are the
// provider's and as hostile as an answer.
type problem struct{ kind, code, message string }

// problemOf reads an error's body: both {"error": {...}} and a bare object, with
// a type, and a code that may be a number.
func problemOf(body []byte) problem {
	o, err := parseObject(bytes.TrimSpace(body))
	if err != nil {
		return problem{}
	}
	if text := o.text("error"); text != "" {
		return problem{message: text}
	}
	if inner, err := o.child("error"); err == nil {
		o = inner
	}
	p := problem{message: o.text("message")}
	if name := o.text("type"); errorName.MatchString(name) {
		p.kind = name
	}
	if name := o.text("code"); errorName.MatchString(name) {
		p.code = name
	}
	return p
}

var errorName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z_]{0,63}$`)

// name is the most telling of what the provider calls its problem.
func (p problem) name() string {
	if p.code != "" {
		return p.code
	}
	return p.kind
}

// tooLong recognises a request that does not fit the model's context window, as
// providers and common servers say it.
var tooLong = regexp.MustCompile(`(?i)context_length_exceeded|exceed_context_size|maximum context length|prompt is too long|input is too long|` +
	`exceeds? (the )?(available |model's )?context|exceed context limit|context window`)

// final are the problems that the same request meets again, whatever the status.
var final = map[string]bool{
	"invalid_request_error": true, "authentication_error": true, "permission_error": true, "not_found_error": true,
	"request_too_large": true, "billing_error": true, "insufficient_quota": true, "invalid_api_key": true, "model_not_found": true, "invalid_prompt": true,
}

// refused sorts an answer with an error's status. 408, 409, 425, 429 and 5xx may
// succeed later; anything else, and a quota that is used up, is refused for good.
func refused(status int, header http.Header, p problem) *runner.ModelError {
	e := &runner.ModelError{Code: p.name(), Err: fmt.Errorf("status %d, request %s: %s", status, requestID(header), p.name())}
	if e.Code == "" {
		e.Code = "status_" + strconv.Itoa(status)
	}
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		e.Retry = true
	default:
		e.Retry = status >= 500
	}
	if final[p.code] {
		e.Retry = false
	}
	if status == http.StatusRequestEntityTooLarge || status < 500 && !e.Retry && (tooLong.MatchString(p.code) || tooLong.MatchString(p.kind) || tooLong.MatchString(p.message)) {
		e.Code, e.Retry = runner.CodeContextWindow, false
	}
	if e.Retry {
		e.RetryAfter = waitFor(header, time.Now())
	}
	switch status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		if p.message != "" {
			e.Err = fmt.Errorf("%w: %.2000s", e.Err, p.message)
		}
	}
	return e
}

func requestID(header http.Header) string {
	for _, name := range []string{"request-id", "x-request-id"} {
		if v := header.Get(name); v != "" && len(v) <= 100 {
			return v
		}
	}
	return ""
}

// eventError sorts an error that the provider reports inside a stream. What it
// says is not repeated: it may be anything.
func eventError(data []byte) *runner.ModelError {
	p := problemOf(data)
	code := p.name()
	if code == "" || code == "error" {
		code = "error_event"
	}
	if tooLong.MatchString(code) || final[code] && tooLong.MatchString(p.message) {
		code = runner.CodeContextWindow
	}
	return &runner.ModelError{Code: code, Retry: !final[code] && code != runner.CodeContextWindow, Err: fmt.Errorf("the provider ended the stream with %s", code)}
}

func unreadable(err error) *runner.ModelError {
	return &runner.ModelError{Code: "unreadable_answer", Retry: true, Err: err}
}

// waitFor is how long the provider asks to wait; zero when it does not say.
func waitFor(header http.Header, now time.Time) time.Duration {
	if ms, err := strconv.Atoi(strings.TrimSpace(header.Get("retry-after-ms"))); err == nil && ms > 0 {
		return time.Duration(ms) * time.Millisecond
	}
	return retryAfter(header.Get("retry-after"), now)
}

// retryAfter reads the header in either form of RFC 9110, section 10.2.3; a
// date is rounded up, never down. Zero when absent or not understood.
func retryAfter(v string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(strings.TrimSpace(v)); err == nil && n > 0 {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil && at.After(now) {
		return at.Sub(now).Truncate(time.Second) + time.Second
	}
	return 0
}

// isObject reports whether raw is a whole JSON object.
func isObject(raw []byte) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) > 0 && raw[0] == '{' && json.Valid(raw)
}
