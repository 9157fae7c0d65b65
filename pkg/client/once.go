package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	randv2 "math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// What is done about an act that may have happened.
const (
	OnDoubtAsk   = "ask"   // a person says, by "holdfast effects resolve"
	OnDoubtRetry = "retry" // the other side honours the key: act again
	OnDoubtFail  = "fail"  // nobody is asked; the key stays closed
)

// Errors of Once that a caller branches on. Each is wrapped by an *OnceError.
var (
	// ErrKeyMismatch: the key was used with other arguments.
	ErrKeyMismatch = errors.New("key used with other arguments")
	// ErrInDoubt: it may have happened; nobody acts until it is settled.
	ErrInDoubt = errors.New("it may have happened")
	// ErrExpiredKey: the key was used so long ago that only that is known.
	ErrExpiredKey = errors.New("key expired")
	// ErrDamaged: the ledger's record cannot be understood; an operator must look.
	ErrDamaged = errors.New("record damaged")
	// ErrLeaseLost: the lease could not be renewed in time, so that the act's
	// context was cancelled. It is also the context's cause.
	ErrLeaseLost = errors.New("lease lost")
	// ErrNotRecorded: the act happened and its outcome did not reach the ledger,
	// where it is in doubt after the lease.
	ErrNotRecorded = errors.New("outcome not recorded")
)

// OnceError says why Once has no result.
type OnceError struct {
	Err      error // one of the errors above
	Key      string
	EffectID string // empty when the ledger did not say
	Detail   string // for people: what happened and what to do
	// Result is what the act returned, with ErrNotRecorded.
	Result json.RawMessage
	Cause  error // may be nil
}

func (e *OnceError) Error() string {
	return fmt.Sprintf("once %q: %s", e.Key, cmp.Or(e.Detail, e.Err.Error()))
}

// Unwrap returns Err and Cause.
func (e *OnceError) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.Cause}
}

// NotHappened says that an act surely did not happen, so that its key may be
// used again at once. A function given to Once returns it for what the other
// side has refused; any other error means that nobody knows.
func NotHappened(err error) error { return &notHappened{err} }

type notHappened struct{ err error }

func (e *notHappened) Error() string { return e.err.Error() }
func (e *notHappened) Unwrap() error { return e.err }

// Act is what Once does, with more said about it than a key.
type Act struct {
	Key string // what must happen at most once, such as "refund/ch_17"
	// Tool is what acts; keys of two tools never meet. Empty means "act". The
	// ledger shows it as program/<Tool>.
	Tool string
	// Args is what the act depends on, any value that encodes to JSON: the same
	// key with other arguments is refused. nil means null.
	Args any
	// OnDoubt is the policy for an act that may have happened; empty: OnDoubtAsk.
	OnDoubt string
	// Lease is how long the program may be gone before the act is in doubt; it is
	// renewed while the act runs. Whole seconds; zero means 30 s.
	Lease time.Duration
	RunID events.RunID // of the run that acts; may be empty
}

// Fence is the right to act once.
type Fence struct {
	EffectID string
	Key      string // send it along, as Idempotency-Key, where the other side takes one
	Epoch    int64  // rises with each attempt
}

// Result is what an act returned, as it was recorded.
type Result struct {
	JSON json.RawMessage
	// Stored says that an earlier call acted and this one did not.
	Stored bool
}

// Decode reads the result into v. Numbers that land in an any are json.Number:
// no digit is lost.
func (r Result) Decode(v any) error {
	dec := json.NewDecoder(bytes.NewReader(r.JSON))
	dec.UseNumber()
	if err := dec.Decode(v); err != nil {
		return fmt.Errorf("decode result: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("decode result: more than one value")
	}
	return nil
}

// Once calls fn at most once for a key, as far as any ledger can: the intent is
// stored before fn runs and what it returns is stored after it, so that the next
// call with the key, from any process, gets the result without acting. See
// OnceAct for all that can be said about an act.
func (c *Client) Once(ctx context.Context, key string, fn func(context.Context, Fence) (any, error)) (Result, error) {
	return c.OnceAct(ctx, Act{Key: key}, fn)
}

// OnceAct is Once with arguments, a policy and a lease.
//
// It waits while another process acts under the key, or a stop holds it, until ctx ends. fn's value
// is encoded to JSON and recorded. When fn returns NotHappened the key is free
// again and the error is returned; after any other error nobody knows whether it
// happened: it is returned, and the ledger follows the policy once the lease is
// over. The lease is renewed while fn runs; when that fails for as long as it
// lasts, fn's context is cancelled with ErrLeaseLost, and fn must not act after
// that. A process that is suspended before it acts cannot be stopped by any
// lease: only a key that the other side honours closes that gap.
//
// Errors: *OnceError, an *Error of the server, what fn returned, or ctx's.
func (c *Client) OnceAct(ctx context.Context, a Act, fn func(context.Context, Fence) (any, error)) (Result, error) {
	args, err := marshal(a.Args)
	if err != nil {
		return Result{}, fmt.Errorf("once %q: encode arguments: %w", a.Key, err)
	}
	if a.Lease == 0 {
		a.Lease = 30 * time.Second
	}
	b := beginRequest{
		Key: a.Key, Tool: a.Tool, Args: args, Holder: rand.Text(), LeaseSeconds: int64((a.Lease + time.Second - 1) / time.Second),
		OnDoubt: a.OnDoubt, RunID: a.RunID,
	}
	why := "" // it waits; kept for whoever gives up
	for try := 0; ; try++ {
		asked := time.Now() // the lease is counted from before the question
		var out beginAnswer
		if _, err := c.do(ctx, call{method: http.MethodPost, path: "/v1/effects", body: b, idempotent: true}, &out); err != nil {
			if ctx.Err() != nil && why != "" {
				return Result{}, fmt.Errorf("once %q: %s: %w", a.Key, why, context.Cause(ctx))
			}
			return Result{}, onceError(a.Key, err)
		}
		switch out.Status {
		case "proceed":
			return c.act(ctx, a, b, out, asked, fn)
		case "done":
			return Result{JSON: out.Result, Stored: true}, nil
		case "unknown":
			return Result{}, &OnceError{Err: ErrInDoubt, Key: a.Key, EffectID: out.EffectID, Detail: out.Advice}
		case "busy", "held":
		default:
			return Result{}, fmt.Errorf("once %q: the server answered %q, which this version does not know", a.Key, out.Status)
		}
		why = cmp.Or(out.Advice, out.Holder+" is acting")
		// Whoever acts may end long before its lease does.
		wait := min(time.Duration(out.RetryAfter*float64(time.Second)), 100*time.Millisecond<<min(try, 5))
		select {
		case <-ctx.Done():
			return Result{}, fmt.Errorf("once %q: %s: %w", a.Key, why, context.Cause(ctx))
		case <-time.After(wait/2 + randv2.N(wait/2+time.Millisecond)):
		}
	}
}

type beginRequest struct {
	Key          string          `json:"key"`
	Tool         string          `json:"tool,omitempty"`
	Args         json.RawMessage `json:"args,omitempty"`
	Holder       string          `json:"holder"`
	LeaseSeconds int64           `json:"lease_seconds"`
	OnDoubt      string          `json:"on_doubt,omitempty"`
	RunID        events.RunID    `json:"run_id,omitempty"`
}

type beginAnswer struct {
	Status     string          `json:"status"`
	EffectID   string          `json:"effect_id"`
	Key        string          `json:"key"`
	Fence      int64           `json:"fence"`
	LeaseMs    int64           `json:"lease_ms"`
	Result     json.RawMessage `json:"result"`
	Holder     string          `json:"holder"`
	RetryAfter float64         `json:"retry_after"`
	Advice     string          `json:"advice"`
}

type recordRequest struct {
	Fence  int64           `json:"fence"`
	Status string          `json:"status"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *events.Problem `json:"error,omitempty"`
}

// act runs fn under a lease and records what it says.
func (c *Client) act(ctx context.Context, a Act, b beginRequest, out beginAnswer, asked time.Time, fn func(context.Context, Fence) (any, error)) (Result, error) {
	acting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var renewing sync.WaitGroup
	renewing.Go(func() { c.renew(acting, cancel, out, b.LeaseSeconds, asked) })
	value, err := fn(acting, Fence{EffectID: out.EffectID, Key: out.Key, Epoch: out.Fence})
	lost := errors.Is(context.Cause(acting), ErrLeaseLost)
	cancel(nil)
	renewing.Wait()

	refused, surely := errors.AsType[*notHappened](err)
	if err != nil && !surely {
		if lost && errors.Is(err, context.Canceled) {
			err = ErrLeaseLost
		}
		return Result{}, &OnceError{Err: err, Key: a.Key, EffectID: out.EffectID,
			Detail: fmt.Sprintf("%v; whether it happened is not known: the policy %s follows after the lease", err, cmp.Or(a.OnDoubt, OnDoubtAsk))}
	}
	rec := recordRequest{Fence: out.Fence, Status: "succeeded"}
	if surely {
		rec.Status, rec.Error = "failed", &events.Problem{Code: "not_happened", Message: clip(refused.Error(), 1000)}
	} else if rec.Result, err = marshal(value); err != nil {
		return Result{}, &OnceError{Err: ErrNotRecorded, Key: a.Key, EffectID: out.EffectID, Cause: err,
			Detail: fmt.Sprintf("it happened and its result does not encode to JSON: %v", err)}
	}
	// What happened must be recorded although the caller gives up.
	recording, done := context.WithTimeout(context.WithoutCancel(ctx), recordPatience)
	defer done()
	patient := *c
	patient.attempts = max(c.attempts, recordAttempts)
	_, rerr := patient.do(recording, call{method: http.MethodPut, path: "/v1/effects/" + url.PathEscape(out.EffectID), body: rec, idempotent: true}, nil)
	switch {
	case surely && rerr == nil:
		return Result{}, refused.err
	case surely:
		return Result{}, errors.Join(refused.err, rerr)
	case rerr != nil:
		return Result{JSON: rec.Result}, &OnceError{Err: ErrNotRecorded, Key: a.Key, EffectID: out.EffectID, Result: rec.Result, Cause: rerr,
			Detail: fmt.Sprintf("it happened and the ledger does not know: %v", rerr)}
	}
	return Result{JSON: rec.Result}, nil
}

const (
	recordPatience = time.Minute
	recordAttempts = 40 // with back-off far beyond recordPatience
)

// renew keeps the lease until ctx ends. It cancels the act when the lease may be
// over by this machine's clock, counted from before each question.
func (c *Client) renew(ctx context.Context, cancel context.CancelCauseFunc, out beginAnswer, leaseSeconds int64, asked time.Time) {
	lease := time.Duration(leaseSeconds) * time.Second
	until := asked.Add(time.Duration(out.LeaseMs) * time.Millisecond)
	body := struct {
		Fence        int64 `json:"fence"`
		LeaseSeconds int64 `json:"lease_seconds"`
	}{out.Fence, leaseSeconds}
	wait := lease / 3
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(wait, max(time.Until(until), 0))):
		}
		left := time.Until(until)
		if left <= 0 {
			cancel(ErrLeaseLost)
			return
		}
		asked := time.Now()
		trying, done := context.WithTimeout(ctx, left)
		_, err := c.do(trying, call{method: http.MethodPost, path: "/v1/effects/" + url.PathEscape(out.EffectID) + "/renew", body: body, idempotent: true}, nil)
		done()
		switch {
		case err == nil:
			until, wait = asked.Add(lease), lease/3
		case StatusOf(err) == http.StatusConflict || StatusOf(err) == http.StatusNotFound:
			cancel(ErrLeaseLost)
			return
		default:
			wait = lease / 10
		}
	}
}

// onceError makes the ledger's refusals typed.
func onceError(key string, err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return fmt.Errorf("once %q: %w", key, err)
	}
	for code, typed := range map[string]error{"key_mismatch": ErrKeyMismatch, "expired_key": ErrExpiredKey, "damaged": ErrDamaged} {
		if e.Code == code {
			return &OnceError{Err: typed, Key: key, Detail: e.Detail, Cause: e}
		}
	}
	return fmt.Errorf("once %q: %w", key, err)
}

// marshal encodes v without touching what is raw already.
func marshal(v any) (json.RawMessage, error) {
	if raw, ok := v.(json.RawMessage); ok && len(raw) > 0 {
		return raw, nil
	}
	return events.Marshal(v)
}

func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return s[:limit] + "..."
}
