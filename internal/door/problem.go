package door

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/internal/pg"
)

// Problem is an RFC 9457 problem document. Code is stable and is what programs
// branch on; Detail is for people and may change.
type Problem struct {
	Type      string         `json:"type" doc:"always about:blank: the code says what kind it is"`
	Title     string         `json:"title"`
	Status    int            `json:"status"`
	Detail    string         `json:"detail,omitempty" doc:"what happened and what to do next"`
	Code      string         `json:"code" doc:"stable name of the kind of problem" example:"not_found"`
	RequestID string         `json:"request_id,omitempty" doc:"also in the header X-Request-Id and in the log"`
	Errors    []ProblemError `json:"errors,omitempty" doc:"one entry per place that is wrong"`

	retryAfter time.Duration
	cause      error
}

// ProblemError is one place of the input that is wrong.
type ProblemError struct {
	Field   string `json:"field,omitempty" doc:"where: body.input.shop, or file:line:column"`
	Message string `json:"message"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
}

// Codes that the door itself uses. Services add their own.
const (
	CodeUnauthenticated = "unauthenticated"
	CodeForbidden       = "forbidden"
	CodeWrongNamespace  = "wrong_namespace"
	CodeCrossOrigin     = "cross_origin"
	CodeNotFound        = "not_found"
	CodeMethod          = "method_not_allowed"
	CodeBadRequest      = "bad_request"
	CodeInvalidInput    = "invalid_input"
	CodeInvalidCursor   = "invalid_cursor"
	CodeBodyTooLarge    = "body_too_large"
	CodeTimeout         = "request_timeout"
	CodeMediaType       = "unsupported_media_type"
	CodeUnavailable     = "unavailable"
	CodeInternal        = "internal"
)

// Error returns a problem with the given status, code and sentence.
func Error(status int, code, detail string) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code, Detail: detail}
}

// NotFound is Error(404, "not_found", ...).
func NotFound(format string, args ...any) *Problem {
	return Error(http.StatusNotFound, CodeNotFound, fmt.Sprintf(format, args...))
}

// At adds one place that is wrong and returns p.
func (p *Problem) At(field, message string) *Problem {
	p.Errors = append(p.Errors, ProblemError{Field: field, Message: message})
	return p
}

// After sets Retry-After, rounded up to whole seconds, and returns p.
func (p *Problem) After(d time.Duration) *Problem {
	p.retryAfter = d
	return p
}

// Because keeps the error for the log; the caller is not told. It returns p.
func (p *Problem) Because(err error) *Problem {
	p.cause = err
	return p
}

// Error implements error.
func (p *Problem) Error() string {
	if p.cause != nil {
		return fmt.Sprintf("%d %s: %s: %v", p.Status, p.Code, p.Detail, p.cause)
	}
	return fmt.Sprintf("%d %s: %s", p.Status, p.Code, p.Detail)
}

// Unwrap returns the cause, if any.
func (p *Problem) Unwrap() error { return p.cause }

// GetStatus implements huma.StatusError.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders implements huma.HeadersError.
func (p *Problem) GetHeaders() http.Header {
	h := http.Header{}
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(p.retryAfter.Seconds()))))
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="holdfast"`)
	}
	return h
}

// ContentType implements huma.ContentTypeFilter.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// From turns any error of a handler into a problem:
//
//   - a Problem stays what it is
//   - fault.RetryAfter, a transient database error and a deadline: 503 with Retry-After
//   - fault.Terminal: 422 with its code and its text, which is meant for the caller
//   - a body over the limit: 413
//   - text that Postgres cannot store: 422
//   - anything else: 500 without detail
func From(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if tooBig, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return bodyTooLarge(tooBig.Limit, 0)
	}
	if _, slow := errors.AsType[*slowBodyError](err); slow {
		return Error(http.StatusRequestTimeout, CodeTimeout, "the body arrived too slowly; send it again").Because(err)
	}
	if wait, ok := fault.Wait(err); ok {
		return unavailable(max(wait, time.Second)).Because(err)
	}
	switch {
	case errors.Is(err, authn.ErrUnknownToken):
		return unauthenticated("the token is unknown, revoked or expired")
	case pg.Transient(err):
		return unavailable(2 * time.Second).Because(err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return unavailable(2 * time.Second).Because(err)
	}
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && unstorable(refused.Code) || errors.Is(err, pg.ErrUnclean) {
		return Error(http.StatusUnprocessableEntity, CodeInvalidInput,
			"the input has a character that cannot be stored (U+0000 or invalid UTF-8); remove it").Because(err)
	}
	if code, ok := fault.TerminalCode(err); ok {
		return Error(http.StatusUnprocessableEntity, code, strings.TrimPrefix(err.Error(), code+": "))
	}
	if se, ok := errors.AsType[huma.StatusError](err); ok {
		return fromHuma(se.GetStatus(), se.Error(), nil)
	}
	return Error(http.StatusInternalServerError, CodeInternal,
		"something went wrong here; the log has the request id").Because(err)
}

// 22021 character_not_in_repertoire, 22P05 untranslatable_character
func unstorable(sqlstate string) bool { return sqlstate == "22021" || sqlstate == "22P05" }

func unavailable(wait time.Duration) *Problem {
	return Error(http.StatusServiceUnavailable, CodeUnavailable,
		"a part that this request needs is not available; nothing was changed; try again").After(wait)
}

func unauthenticated(detail string) *Problem {
	return Error(http.StatusUnauthorized, CodeUnauthenticated,
		detail+`; send "Authorization: Bearer <token>", made by "holdfast tokens create"`)
}

func bodyTooLarge(limit, actual int64) *Problem {
	detail := fmt.Sprintf("the body is larger than %d bytes", limit)
	if actual > 0 {
		detail = fmt.Sprintf("the body has %d bytes, the limit is %d", actual, limit)
	}
	return Error(http.StatusRequestEntityTooLarge, CodeBodyTooLarge, detail)
}

// fromHuma builds a problem from huma's own errors. It leaves out the values
// that huma echoes: they may be secrets.
func fromHuma(status int, msg string, errs []error) *Problem {
	p := Error(status, codeOf(status), msg)
	for _, err := range errs {
		if err == nil {
			continue
		}
		if known, ok := errors.AsType[*Problem](err); ok {
			return known
		}
		if d, ok := errors.AsType[*huma.ErrorDetail](err); ok {
			p.At(d.Location, d.Message)
			continue
		}
		p.At("", err.Error())
	}
	return p
}

func codeOf(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return CodeUnauthenticated
	case http.StatusForbidden:
		return CodeForbidden
	case http.StatusNotFound:
		return CodeNotFound
	case http.StatusMethodNotAllowed:
		return CodeMethod
	case http.StatusRequestTimeout:
		return CodeTimeout
	case http.StatusRequestEntityTooLarge:
		return CodeBodyTooLarge
	case http.StatusUnsupportedMediaType:
		return CodeMediaType
	case http.StatusUnprocessableEntity:
		return CodeInvalidInput
	case http.StatusServiceUnavailable:
		return CodeUnavailable
	}
	if status >= 500 {
		return CodeInternal
	}
	return CodeBadRequest
}

func (p *Problem) write(w http.ResponseWriter) {
	for k, v := range p.GetHeaders() {
		w.Header()[k] = v
	}
	w.Header().Set("Content-Type", p.ContentType(""))
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client is gone when this fails
}
