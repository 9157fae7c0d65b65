package kind

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

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/tools"
)

// HTTP runs a tool that is one HTTP request.
type HTTP struct {
	egress    Sender
	lookupEnv func(string) (string, bool)
	readFile  func(string) ([]byte, error)
}

var _ tools.Kind = (*HTTP)(nil)

// Name is "http".
func (h *HTTP) Name() string { return "http" }

// Runs reports whether the definition has an http part.
func (h *HTTP) Runs(t *spec.Tool) bool { return t.HTTP != nil }

// Act sends the request. The key goes along in the definition's header, except
// with reads.
func (h *HTTP) Act(ctx context.Context, r tools.Request) tools.Outcome {
	read := r.Class == tools.ClassRead
	req, scrub, out := h.request(r, read)
	if out != nil {
		return *out
	}
	receipt := tools.Receipt{RequestDigest: digest(req, scrub)}
	resp, err := h.egress.Do(ctx, req)
	if err != nil {
		o := sendFailure(ctx, err, scrub)
		o.Receipt = receipt
		return o
	}
	receipt.Status, receipt.Bytes = resp.Status, int64(len(resp.Body))
	receipt.ContentType = scrub.clean(resp.Header.Get("Content-Type"), 200)
	receipt.RequestID = scrub.clean(requestID(resp.Header), 200)
	o := scrub.outcome(judge(r, resp, read, scrub))
	o.Receipt = receipt
	return o
}

// request renders the definition. Secrets are resolved here, after the intent.
func (h *HTTP) request(r tools.Request, read bool) (egress.Request, scrubber, *tools.Outcome) {
	def := r.Tool.HTTP
	fail := func(v tools.Verdict, code string, err error) (egress.Request, scrubber, *tools.Outcome) {
		return egress.Request{}, scrubber{}, &tools.Outcome{Verdict: v, Error: &events.Problem{Code: code, Message: clean(err.Error(), maxProblemBytes)}}
	}
	env, err := def.EnvValues(h.lookupEnv)
	if err != nil {
		return fail(tools.NotSent, "tool_misconfigured", err)
	}
	secret, err := def.SecretValues(h.lookupEnv, h.readFile)
	if err != nil {
		return fail(tools.NotSent, "tool_misconfigured", err)
	}
	var secrets map[string]string
	if err := json.Unmarshal(secret, &secrets); err != nil {
		return fail(tools.NotSent, "tool_misconfigured", errors.New("secrets cannot be read"))
	}
	token := ""
	if def.Callback != nil {
		if r.ReplyURL == "" {
			return fail(tools.NotSent, "tool_misconfigured", errors.New("there is no address for the callback; start the tools service with --tools-public-url"))
		}
		token = r.ReplyURL[strings.LastIndexByte(r.ReplyURL, '/')+1:]
	}
	scrub := newScrubber(secrets, token)
	reach, err := egress.ReachOf(r.Tool.TLS, r.Tool.AllowHosts, h.lookupEnv, h.readFile)
	if err != nil {
		return fail(tools.NotSent, "tool_misconfigured", err)
	}
	values := map[string]json.RawMessage{"args": r.Args, "env": env}
	url, err := def.URL.URL(values)
	if err != nil {
		return fail(tools.Refused, "invalid_arguments", err)
	}
	if url, err = def.AddQuery(url, values); err != nil {
		return fail(tools.Refused, "invalid_arguments", err)
	}
	values["secret"] = secret
	if def.Callback != nil {
		url, err := json.Marshal(map[string]string{"url": r.ReplyURL})
		if err != nil {
			return fail(tools.NotSent, "tool_misconfigured", errors.New("the address of the callback cannot be written"))
		}
		values["callback"] = url
	}
	req := egress.Request{Method: def.Method, URL: url, Header: http.Header{}, Read: read, MaxBytes: maxArtifactBytes, Reach: reach}
	for name, template := range def.Headers {
		v, err := template.Text(values)
		if err != nil {
			return fail(tools.Refused, "invalid_arguments", fmt.Errorf("header %s: %w", name, err))
		}
		if strings.ContainsFunc(v, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
			return fail(tools.Refused, "invalid_arguments", fmt.Errorf("header %s would hold a control character", name))
		}
		req.Header.Set(name, v)
	}
	if def.Body != nil {
		body, err := def.Body.Text(values)
		if err != nil {
			return fail(tools.Refused, "invalid_arguments", fmt.Errorf("body: %w", err))
		}
		if body != "" { // an empty one is none: it has neither type nor chunks
			req.Body = []byte(body)
		}
		if req.Header.Get("Content-Type") == "" && req.Body != nil {
			req.Header.Set("Content-Type", bodyType(req.Body))
		}
	}
	if req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "application/json, text/*;q=0.9, */*;q=0.5")
	}
	if !read {
		req.Header.Set(def.IdempotencyHeader, headerKey(r.Key))
	}
	return req, scrub, nil
}

func bodyType(body []byte) string {
	if json.Valid(body) {
		return "application/json"
	}
	return "text/plain; charset=utf-8"
}

// maxHeaderKey is what widely used APIs take as a key.
const maxHeaderKey = 255

// headerKey spells a key for a header: as it is when every byte may stand
// there, else a hash of it, which is the same for every attempt.
func headerKey(key string) string {
	plain := len(key) <= maxHeaderKey && !strings.ContainsFunc(key, func(c rune) bool { return c < 0x21 || c > 0x7e })
	if plain {
		return key
	}
	return string(events.DigestOf([]byte(key)))
}

// digest covers what was sent, with secrets left out.
func digest(r egress.Request, scrub scrubber) string {
	return string(events.DigestOf(scrub.bytes(fmt.Appendf(nil, "%s %s\n%s", r.Method, r.URL, r.Body))))
}

func requestID(h http.Header) string {
	for _, name := range []string{"Request-Id", "X-Request-Id", "X-Amzn-Requestid", "Cf-Ray"} {
		if v := h.Get(name); v != "" {
			return v
		}
	}
	return ""
}

// codeCircuitOpen says that nothing was sent because the host failed too often.
const codeCircuitOpen = "circuit_open"

// sendFailure is the outcome of a request without an answer.
func sendFailure(ctx context.Context, err error, scrub scrubber) tools.Outcome {
	sent := true // the careful reading of an error that says nothing
	if e, ok := errors.AsType[*egress.Error](err); ok {
		sent = e.Sent
	}
	text := scrub.clean(err.Error(), maxProblemBytes)
	if open, ok := errors.AsType[*egress.OpenError](err); ok {
		return tools.Outcome{Verdict: tools.NotSent, Unasked: true, RetryAfter: open.Wait, Error: &events.Problem{Code: codeCircuitOpen, Message: text}}
	}
	switch {
	case errors.Is(err, egress.ErrRefused):
		return tools.Outcome{Verdict: tools.Refused, Error: &events.Problem{Code: "address_refused", Message: text}}
	case !sent:
		return tools.Outcome{Verdict: tools.NotSent, Error: &events.Problem{Code: "unreachable", Message: "nothing was sent: " + text}}
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(ctx.Err(), context.DeadlineExceeded):
		return tools.Outcome{Error: &events.Problem{Code: "timeout", Message: "no answer in time; it may have happened"}}
	}
	return tools.Outcome{Error: &events.Problem{Code: "no_answer", Message: "the connection broke before an answer; it may have happened: " + text}}
}

// statusOutcome says what a status means:
//
//	2xx                          happened
//	425, 429                     not processed: may be sent again
//	408, 409 in progress, 5xx    nobody knows (501 and 505: refused)
//	301, 302, 303 to a write     nobody knows
//	other 3xx and 4xx            refused; the model reads why
func statusOutcome(r egress.Response, read bool, scrub scrubber) tools.Outcome {
	out := tools.Outcome{RetryAfter: retryAfter(r.Header.Get("Retry-After"), time.Now())}
	switch s := r.Status; {
	case s >= 200 && s < 300:
		if read && r.Broken != nil {
			out.Error = &events.Problem{Code: "no_answer", Message: "the connection broke in the middle of the answer"}
			return out
		}
		return tools.Outcome{Verdict: tools.Happened}
	case s == http.StatusTooEarly || s == http.StatusTooManyRequests:
		out.Verdict = tools.NotSent
	case s == http.StatusRequestTimeout, s == http.StatusConflict && inProgress(r):
	case s == http.StatusNotImplemented || s == http.StatusHTTPVersionNotSupported:
		out.Verdict = tools.Refused
	case s >= 500:
	case !read && (s == http.StatusMovedPermanently || s == http.StatusFound || s == http.StatusSeeOther):
	default:
		out.Verdict = tools.Refused
	}
	out.Error = &events.Problem{Code: fmt.Sprintf("http_%d", r.Status), Message: refusalText(r, scrub)}
	return out
}

// inProgress tells a conflict that means "this very key is being worked on"
// from one that is an answer. Source: IETF draft "The Idempotency-Key HTTP
// Header Field", section 2.6, and what payment APIs send.
func inProgress(r egress.Response) bool {
	if r.Header.Get("Retry-After") != "" {
		return true
	}
	body := strings.ToLower(string(r.Body[:min(len(r.Body), 4<<10)]))
	return strings.Contains(body, "idempotency") || strings.Contains(body, "idempotent")
}

func refusalText(r egress.Response, scrub scrubber) string {
	text := fmt.Sprintf("HTTP %d %s", r.Status, http.StatusText(r.Status))
	if body := scrub.cut(r.Body); len(body) > 0 && isText(r.Header.Get("Content-Type"), body) {
		text += ": " + strings.TrimSpace(string(body))
	}
	return clean(text, maxProblemBytes)
}

// retryAfter reads the header: seconds, or a date, which is never rounded
// down. Anything else is no wish. Source: RFC 9110, section 10.2.3.
func retryAfter(v string, now time.Time) time.Duration {
	if v = strings.TrimSpace(v); v == "" {
		return 0
	}
	if !strings.ContainsFunc(v, func(c rune) bool { return c < '0' || c > '9' }) {
		n, err := strconv.ParseUint(v, 10, 31)
		if err != nil {
			n = math.MaxInt32 // longer than anybody waits
		}
		return time.Duration(n) * time.Second
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(0, t.Sub(now))
	}
	return 0
}
