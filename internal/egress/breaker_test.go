package egress

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/telemetry"
)

// flaky is a server, and a client whose breaker's clock stands still.
type flaky struct {
	*httptest.Server
	client  *Client
	breaker *Breaker
	status  atomic.Int64
	arrived atomic.Int64
	gate    chan struct{} // when set, answers wait for it

	mu    sync.Mutex
	clock time.Time
}

func newFlaky(t *testing.T, failures int) *flaky {
	t.Helper()
	f := &flaky{clock: time.Unix(1e9, 0)}
	f.status.Store(500)
	f.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		f.arrived.Add(1)
		if f.gate != nil {
			<-f.gate
		}
		rw.WriteHeader(int(f.status.Load()))
	}))
	t.Cleanup(f.Server.Close)
	m, err := NewMetrics(telemetry.Discard())
	if err != nil {
		t.Fatal(err)
	}
	f.breaker = NewBreaker(BreakerConfig{Failures: failures, Open: time.Minute, Metrics: m})
	if f.breaker != nil {
		f.breaker.now = func() time.Time {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.clock
		}
	}
	f.client = New(Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Breaker: f.breaker, Metrics: m})
	return f
}

func (f *flaky) pass(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clock = f.clock.Add(d)
}

func (f *flaky) post(t *testing.T) error {
	t.Helper()
	_, err := f.client.Do(t.Context(), Request{Method: "POST", URL: f.URL, Body: []byte("{}")})
	return err
}

func TestBreaker(t *testing.T) {
	t.Parallel()
	f := newFlaky(t, 3)
	for range 3 {
		if err := f.post(t); err != nil {
			t.Fatal(err)
		}
	}
	if n := f.breaker.opened(); n != 1 {
		t.Errorf("%d circuits are open after 3 failures, want 1", n)
	}
	err := f.post(t)
	open, ok := errors.AsType[*OpenError](err)
	e, _ := errors.AsType[*Error](err)
	if !ok || e.Sent || open.Wait != time.Minute || f.arrived.Load() != 3 {
		t.Fatalf("while it is open: %v after %d arrivals, want nothing sent and a minute", err, f.arrived.Load())
	}
	// The trial fails: open again, without three more failures.
	f.pass(time.Minute)
	if err := f.post(t); err != nil || f.arrived.Load() != 4 {
		t.Fatalf("the trial: %v, %d arrivals", err, f.arrived.Load())
	}
	if err := f.post(t); err == nil || f.arrived.Load() != 4 {
		t.Fatalf("after a trial that failed: %v, %d arrivals", err, f.arrived.Load())
	}
	// While a trial is under way nothing else is sent.
	f.pass(time.Minute)
	f.status.Store(200)
	f.gate = make(chan struct{})
	done := make(chan error, 1)
	go func() { done <- f.post(t) }()
	release := sync.OnceFunc(func() { close(f.gate) })
	defer release() // the server waits for what it holds
	for deadline := time.Now().Add(5 * time.Second); f.arrived.Load() != 5; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the trial did not leave")
		}
	}
	second, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err = f.client.Do(second, Request{Method: "POST", URL: f.URL, Body: []byte("{}")})
	if open, ok := errors.AsType[*OpenError](err); !ok || open.Wait != trialWait || f.arrived.Load() != 5 {
		t.Fatalf("during the trial: %v after %d arrivals, want nothing sent and %s", err, f.arrived.Load(), trialWait)
	}
	release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := f.post(t); err != nil || f.breaker.opened() != 0 {
		t.Errorf("after a trial that succeeded: %v", err)
	}
}

func TestBreaker_WhatCounts(t *testing.T) {
	t.Parallel()
	f := newFlaky(t, 2)
	f.status.Store(500)
	_ = f.post(t)
	for _, status := range []int64{200, 404, 429, 501} { // the host is well: what came before is forgotten
		f.status.Store(status)
		_ = f.post(t)
		f.status.Store(500)
		if err := f.post(t); err != nil {
			t.Fatalf("a failure, a %d, a failure: %v", status, err)
		}
	}
	f.status.Store(200)
	_ = f.post(t)
	f.Server.Close()
	for range 2 { // no connection
		if _, open := errors.AsType[*OpenError](f.post(t)); open {
			t.Fatal("open too soon")
		}
	}
	if _, open := errors.AsType[*OpenError](f.post(t)); !open {
		t.Error("two failed connections did not open it")
	}

	// What we refuse or give up ourselves says nothing about a host; a time-out does.
	for name, tc := range map[string]struct {
		result result
		err    error
	}{
		"refused":  {nothingSaid, ErrRefused},
		"given up": {nothingSaid, context.Canceled},
		"time-out": {hostFailed, context.DeadlineExceeded},
	} {
		if got := outcome(nil, tc.err); got != tc.result {
			t.Errorf("%s is %d, want %d", name, got, tc.result)
		}
	}
}

func TestBreaker_Off(t *testing.T) {
	t.Parallel()
	f := newFlaky(t, 0)
	for range 10 {
		if err := f.post(t); err != nil {
			t.Fatal(err)
		}
	}
}

// A trial that was given up leaves the next one free.
func TestBreaker_AbandonedTrial(t *testing.T) {
	t.Parallel()
	f := newFlaky(t, 1)
	_ = f.post(t)
	f.pass(time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = f.client.Do(ctx, Request{Method: "POST", URL: f.URL})
	f.status.Store(200)
	if err := f.post(t); err != nil {
		t.Errorf("after a trial that was given up: %v", err)
	}
}

// Hosts that models name do not fill the memory.
func TestBreaker_Bounded(t *testing.T) {
	t.Parallel()
	b := NewBreaker(BreakerConfig{Failures: 5, Open: time.Minute})
	for i := range 2 * maxCircuits {
		host := netip.AddrFrom4([4]byte{9, byte(i >> 16), byte(i >> 8), byte(i)}).String()
		done, err := b.begin(host, host)
		if err != nil {
			t.Fatal(err)
		}
		done(t.Context(), hostFailed)
	}
	if len(b.circuits) > maxCircuits {
		t.Errorf("%d circuits are remembered", len(b.circuits))
	}
}
