package kind

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/internal/stdwebhooks"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/tools"
)

// Callback posts the end of a run to the address that its start named, signed as
// Standard Webhooks has it. The webhook-id is the call's id, the same in every
// attempt; the timestamp is the attempt's.
type Callback struct {
	egress    Sender
	ends      tools.Ends
	lookupEnv func(string) (string, bool)
	readFile  func(string) ([]byte, error)
}

var _ tools.Kind = (*Callback)(nil)

// Name is "callback".
func (c *Callback) Name() string { return tools.BuiltinCallback }

// Runs reports whether it is the call that posts a run's end; no document is.
func (c *Callback) Runs(t *spec.Tool) bool { return t.Builtin == tools.BuiltinCallback }

// maxCallbackAnswer bounds what is read of a receiver's answer.
const maxCallbackAnswer = 64 << 10

// Act posts once. What stands in the way on our side is not sent and tried
// again: it may be mended within the time that a callback has.
func (c *Callback) Act(ctx context.Context, r tools.Request) tools.Outcome {
	fail := func(code string, err error) tools.Outcome {
		return tools.Outcome{Verdict: tools.NotSent, Error: &events.Problem{Code: code, Message: clean(err.Error(), maxProblemBytes)}}
	}
	keys, scrub, err := c.keys(r.Callback)
	if err != nil {
		return fail("callback_misconfigured", err)
	}
	var args events.CallbackArgs
	if err := json.Unmarshal(r.Args, &args); err != nil {
		return fail("callback_misconfigured", errors.New("its arguments are not those of a callback"))
	}
	run := r.RunID
	end, err := c.ends.Ended(ctx, r.Namespace, run)
	if err != nil {
		return fail("unavailable", fmt.Errorf("run %s cannot be read now", run))
	}
	body, err := events.Marshal(end)
	if err != nil {
		return fail("unavailable", fmt.Errorf("encode end of run %s: %w", run, err))
	}
	reach, err := egress.ReachOf(r.Callback.TLS, r.Callback.AllowHosts, c.lookupEnv, c.readFile)
	if err != nil {
		return fail("callback_misconfigured", err)
	}
	req := egress.Request{Method: http.MethodPost, URL: args.URL, Header: http.Header{}, Body: body, MaxBytes: maxCallbackAnswer, Reach: reach}
	req.Header.Set("Content-Type", "application/json")
	if err := stdwebhooks.Sign(req.Header, keys, string(r.CallID), time.Now(), body); err != nil {
		return fail("callback_misconfigured", err)
	}
	receipt := tools.Receipt{RequestDigest: digest(req, scrub)}
	resp, err := c.egress.Do(ctx, req)
	if err != nil {
		o := sendFailure(ctx, err, scrub)
		if o.Verdict == tools.Refused {
			o.Verdict = tools.NotSent
		}
		o.Receipt = receipt
		return o
	}
	receipt.Status, receipt.Bytes = resp.Status, int64(len(resp.Body))
	receipt.ContentType = scrub.clean(resp.Header.Get("Content-Type"), 200)
	receipt.RequestID = scrub.clean(requestID(resp.Header), 200)
	o := callbackOutcome(resp, scrub)
	o.Receipt = receipt
	return o
}

// keys resolves every secret; each signs.
func (c *Callback) keys(def *spec.Callback) ([]stdwebhooks.Key, scrubber, error) {
	var keys []stdwebhooks.Key
	secrets := map[string]string{}
	for i, ref := range def.Secrets {
		secret, err := ref.Resolve(c.lookupEnv, c.readFile)
		if err != nil {
			return nil, scrubber{}, fmt.Errorf("callback secret %d: %w", i+1, err)
		}
		key, err := stdwebhooks.ParseKey(secret)
		if err != nil {
			return nil, scrubber{}, fmt.Errorf("callback secret %d: %w", i+1, err)
		}
		keys = append(keys, key)
		secrets[fmt.Sprint(i)] = secret
	}
	return keys, newScrubber(secrets), nil
}

// callbackOutcome says what a receiver's answer means:
//
//	2xx         it has the end
//	410         it wants no more: refused for good
//	408, 5xx    nobody knows, again
//	else        it did not take it, again; a redirect is not followed, because
//	            the signature was made for the address that was named
//
// Source: Standard Webhooks spec, "Deliverability and reliability".
func callbackOutcome(r egress.Response, scrub scrubber) tools.Outcome {
	out := tools.Outcome{Verdict: tools.NotSent, RetryAfter: retryAfter(r.Header.Get("Retry-After"), time.Now())}
	switch s := r.Status; {
	case s >= 200 && s < 300:
		out.Verdict, out.Result = tools.Happened, json.RawMessage(fmt.Sprintf(`{"status":%d}`, s))
		return out
	case s == http.StatusGone:
		out.Verdict = tools.Refused
	case s == http.StatusRequestTimeout || s >= 500:
		out.Verdict = tools.Ambiguous
	}
	out.Error = &events.Problem{Code: fmt.Sprintf("http_%d", r.Status), Message: refusalText(r, scrub)}
	return out
}
