package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// ledgerOf answers begins with the given answers, one after another, the last
// one for ever, and keeps what is recorded.
type ledgerOf struct {
	mu       sync.Mutex
	begins   []string
	holders  map[string]bool
	asked    int
	records  []string
	renewals int
	renew    int // status of renewals, 0 is 200
	record   int // status of records, 0 is 200
}

func (l *ledgerOf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var body map[string]json.RawMessage
	_ = json.NewDecoder(r.Body).Decode(&body)
	fail := func(status int) bool {
		if status != 0 {
			w.WriteHeader(status)
			fmt.Fprint(w, `{"code":"fenced","detail":"no longer yours"}`)
		}
		return status != 0
	}
	switch {
	case strings.HasSuffix(r.URL.Path, "/renew"):
		if l.renewals++; !fail(l.renew) {
			fmt.Fprint(w, `{"status":"proceed"}`)
		}
	case r.Method == http.MethodPut:
		l.records = append(l.records, string(body["status"])+string(body["result"]))
		if !fail(l.record) {
			fmt.Fprint(w, `{}`)
		}
	default:
		if l.holders == nil {
			l.holders = map[string]bool{}
		}
		l.holders[string(body["holder"])] = true
		answer := l.begins[min(l.asked, len(l.begins)-1)]
		l.asked++
		if code, ok := strings.CutPrefix(answer, "409 "); ok {
			w.WriteHeader(http.StatusConflict)
			fmt.Fprintf(w, `{"code":%q,"detail":"never"}`, code)
			return
		}
		if answer == "503" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, answer)
	}
}

const proceed = `{"status":"proceed","effect_id":"e-1","key":"k","fence":3,"lease_ms":30000}`

func TestOnce_ActsAndRecords(t *testing.T) {
	t.Parallel()
	l := &ledgerOf{begins: []string{"503", proceed}}
	c, _ := serve(t, l.ServeHTTP)
	r, err := c.Once(t.Context(), "k", func(_ context.Context, f Fence) (any, error) {
		if f != (Fence{EffectID: "e-1", Key: "k", Epoch: 3}) {
			t.Errorf("fence %+v", f)
		}
		return json.RawMessage(`{"n":12345678901234567890.10}`), nil
	})
	if err != nil || r.Stored || string(r.JSON) != `{"n":12345678901234567890.10}` {
		t.Errorf("%s %v %v", r.JSON, r.Stored, err)
	}
	if len(l.records) != 1 || l.records[0] != `"succeeded"{"n":12345678901234567890.10}` {
		t.Errorf("recorded %q", l.records)
	}
	if len(l.holders) != 1 {
		t.Errorf("a repeated begin came as %d holders", len(l.holders))
	}
	var v any
	if err := r.Decode(&v); err != nil || fmt.Sprint(v) != "map[n:12345678901234567890.10]" {
		t.Errorf("decoded %v, %v", v, err)
	}
}

func TestOnce_WaitsWhileBusyThenTakesTheStoredResult(t *testing.T) {
	t.Parallel()
	busy := `{"status":"busy","holder":"x","retry_after":0.05}`
	l := &ledgerOf{begins: []string{busy, busy, `{"status":"done","effect_id":"e-1","result":{"n":1}}`}}
	c, _ := serve(t, l.ServeHTTP)
	r, err := c.Once(t.Context(), "k", func(context.Context, Fence) (any, error) {
		t.Error("it acted")
		return nil, nil
	})
	if err != nil || !r.Stored || string(r.JSON) != `{"n":1}` || l.asked != 3 {
		t.Errorf("%+v, %v after %d begins", r, err, l.asked)
	}
	l.begins = []string{busy}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := c.Once(ctx, "k", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// A stop holds it: Once asks again until it is lifted, and whoever gives up
// first learns whose stop it is. Nothing acts meanwhile.
func TestOnce_WaitsWhileAStopHoldsIt(t *testing.T) {
	t.Parallel()
	held := `{"status":"held","effect_id":"","key":"k","advice":"held by the stop of maria: wrong shop","retry_after":5}`
	l := &ledgerOf{begins: []string{held, held, proceed}}
	c, _ := serve(t, l.ServeHTTP)
	acts := 0
	r, err := c.Once(t.Context(), "k", func(context.Context, Fence) (any, error) {
		acts++
		return acts, nil
	})
	if err != nil || acts != 1 || r.Stored || l.asked != 3 {
		t.Errorf("%+v, %v after %d acts and %d begins", r, err, acts, l.asked)
	}
	l = &ledgerOf{begins: []string{held}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c, _ = serve(t, func(w http.ResponseWriter, r *http.Request) {
		if l.asked == 2 { // two answers have come: it gives up while it asks again
			cancel()
		}
		l.ServeHTTP(w, r)
	})
	_, err = c.Once(ctx, "k", func(context.Context, Fence) (any, error) {
		t.Error("it acted under the stop")
		return nil, nil
	})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "held by the stop of maria: wrong shop") {
		t.Errorf("%v", err)
	}
	if l.asked < 2 || len(l.records) != 0 {
		t.Errorf("asked %d times, recorded %q", l.asked, l.records)
	}
}

func TestOnce_TypedErrors(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]error{
		"409 key_mismatch": ErrKeyMismatch, "409 expired_key": ErrExpiredKey, "409 damaged": ErrDamaged,
		`{"status":"unknown","effect_id":"e-9","advice":"look"}`: ErrInDoubt,
	} {
		l := &ledgerOf{begins: []string{answer}}
		c, _ := serve(t, l.ServeHTTP)
		_, err := c.Once(t.Context(), "k", func(context.Context, Fence) (any, error) { t.Error("it acted"); return nil, nil })
		e, ok := errors.AsType[*OnceError](err)
		if !ok || !errors.Is(err, want) || e.Key != "k" || e.Detail == "" || l.asked != 1 {
			t.Errorf("%s: %v after %d begins", answer, err, l.asked)
		}
	}
}

func TestOnce_WhatTheActSays(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	l := &ledgerOf{begins: []string{proceed}}
	c, _ := serve(t, l.ServeHTTP)
	if _, err := c.Once(t.Context(), "k", func(context.Context, Fence) (any, error) { return nil, boom }); !errors.Is(err, boom) {
		t.Errorf("%v", err)
	}
	if len(l.records) != 0 {
		t.Errorf("an error that proves nothing was recorded: %q", l.records)
	}
	if _, err := c.Once(t.Context(), "k", func(context.Context, Fence) (any, error) { return nil, fmt.Errorf("pay: %w", NotHappened(boom)) }); !errors.Is(err, boom) {
		t.Errorf("%v", err)
	}
	if len(l.records) != 1 || l.records[0] != `"failed"` {
		t.Errorf("recorded %q", l.records)
	}
	l.record = http.StatusConflict
	r, err := c.Once(t.Context(), "k", func(context.Context, Fence) (any, error) { return 7, nil })
	if e, ok := errors.AsType[*OnceError](err); !ok || !errors.Is(err, ErrNotRecorded) || string(e.Result) != "7" || string(r.JSON) != "7" {
		t.Errorf("%v", err)
	}
}

// A lease is renewed while the act runs; when it is lost the act is told.
func TestOnce_Lease(t *testing.T) {
	t.Parallel()
	short := `{"status":"proceed","effect_id":"e-1","key":"k","fence":1,"lease_ms":1000}`
	l := &ledgerOf{begins: []string{short}}
	c, _ := serve(t, l.ServeHTTP)
	_, err := c.OnceAct(t.Context(), Act{Key: "k", Lease: time.Second}, func(ctx context.Context, _ Fence) (any, error) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(2500 * time.Millisecond): // longer than the lease
			return 1, nil
		}
	})
	if err != nil || l.renewals < 3 {
		t.Errorf("%v after %d renewals", err, l.renewals)
	}
	for name, status := range map[string]int{"fenced": http.StatusConflict, "the ledger is away": http.StatusServiceUnavailable} {
		l := &ledgerOf{begins: []string{short}, renew: status}
		c, _ := serve(t, l.ServeHTTP)
		began := time.Now()
		var cause atomic.Value
		_, err := c.OnceAct(t.Context(), Act{Key: "k", Lease: time.Second}, func(ctx context.Context, _ Fence) (any, error) {
			<-ctx.Done()
			cause.Store(context.Cause(ctx))
			return nil, ctx.Err()
		})
		if !errors.Is(err, ErrLeaseLost) || !errors.Is(cause.Load().(error), ErrLeaseLost) {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(began); took > 1500*time.Millisecond {
			t.Errorf("%s: the act was told after %s, its lease was 1 s", name, took)
		}
		if len(l.records) != 0 {
			t.Errorf("%s: recorded %q", name, l.records)
		}
	}
}

func TestProgram_LoadSaveComplete(t *testing.T) {
	t.Parallel()
	var matches, keys []string
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet:
			fmt.Fprint(w, `{"run_id":"r","version":4,"status":"running","state":{"n":1e2}}`)
		case r.Method == http.MethodPut:
			matches, keys = append(matches, r.Header.Get("If-Match")), append(keys, r.Header.Get("Idempotency-Key"))
			switch len(matches) {
			case 1: // its answer is lost
				w.WriteHeader(http.StatusBadGateway)
			case 2:
				fmt.Fprint(w, `{"version":5}`)
			default:
				w.WriteHeader(http.StatusPreconditionFailed)
				fmt.Fprint(w, `{"code":"stale_checkpoint"}`)
			}
		default:
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, `{"code":"run_ended"}`)
		}
	})
	p := c.Program("r")
	saved, err := p.Load(t.Context())
	if err != nil || saved.Version != 4 {
		t.Fatal(saved, err)
	}
	if err := p.Save(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := p.Save(t.Context(), 2); !errors.Is(err, ErrStale) {
		t.Errorf("%v", err)
	}
	if err := p.Complete(t.Context(), nil); !errors.Is(err, ErrRunEnded) {
		t.Errorf("%v", err)
	}
	if strings.Join(matches, " ") != `"4" "4" "5"` || keys[0] == "" || keys[0] != keys[1] || keys[1] == keys[2] {
		t.Errorf("saved over %q with keys %q", matches, keys)
	}
}
