package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Error is an answer of the server that is not a success, an RFC 9457 problem.
type Error struct {
	Status    int     `json:"status"`
	Code      string  `json:"code"` // stable; "http_502" when the answer was not a problem document
	Title     string  `json:"title,omitempty"`
	Detail    string  `json:"detail,omitempty"` // for people
	RequestID string  `json:"request_id,omitempty"`
	Places    []Place `json:"errors,omitempty"`

	RetryAfter time.Duration `json:"-"` // zero when the server named no wait
}

// Place is one place of the input that is wrong.
type Place struct {
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
}

// String is "file:line:column: field: message" without the parts that are absent.
func (p Place) String() string {
	at := p.Field
	if p.File != "" {
		at = p.File
		if p.Line > 0 {
			at += ":" + strconv.Itoa(p.Line)
			if p.Column > 0 {
				at += ":" + strconv.Itoa(p.Column)
			}
		}
	}
	switch {
	case p.File != "" && p.Field != "":
		return at + ": " + p.Field + ": " + p.Message
	case at == "":
		return p.Message
	}
	return at + ": " + p.Message
}

// Error is the detail and one line per place.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Detail)
	if e.Detail == "" {
		fmt.Fprintf(&b, "the server answered %d %s", e.Status, http.StatusText(e.Status))
	}
	for _, p := range e.Places {
		b.WriteString("\n" + p.String())
	}
	return b.String()
}

// StatusOf returns the HTTP status of an *Error in err's chain, else 0.
func StatusOf(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status
	}
	return 0
}

// ErrUnreachable is wrapped by the error of a request that got no answer.
var ErrUnreachable = errors.New("no answer from the server")

func problem(resp *http.Response, body []byte) *Error {
	e := &Error{}
	if err := json.Unmarshal(body, e); err != nil || e.Code == "" {
		text := strings.TrimSpace(string(body))
		if len(text) > 200 {
			text = text[:200] + "..."
		}
		if strings.HasPrefix(strings.ToLower(text), "<") { // some proxy's page
			text = ""
		}
		*e = Error{Code: fmt.Sprintf("http_%d", resp.StatusCode), Detail: text}
	}
	e.Status = resp.StatusCode
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
		e.RetryAfter = time.Duration(s) * time.Second
	}
	if e.RequestID == "" {
		e.RequestID = resp.Header.Get("X-Request-Id")
	}
	return e
}
