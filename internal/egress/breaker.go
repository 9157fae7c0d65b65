package egress

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Breaker keeps a circuit for each host that this process sends requests to. A
// circuit opens after a number of failures in a row: no connection, no answer in
// time, a broken connection, a 5xx. While it is open nothing is sent. Then one
// request is tried: its success closes the circuit, its failure opens it again.
//
// A nil Breaker lets everything through. It is safe for concurrent use.
type Breaker struct {
	failures int
	open     time.Duration
	log      *slog.Logger
	metrics  *Metrics
	now      func() time.Time

	mu       sync.Mutex
	circuits map[string]*circuit // those with failures
}

// BreakerConfig says when a circuit opens.
type BreakerConfig struct {
	Failures int           // in a row; zero means no breaker
	Open     time.Duration // how long nothing is sent
	Log      *slog.Logger
	Metrics  *Metrics // may be nil
}

// circuit is what is known about a host that failed.
type circuit struct {
	host     string
	failures int
	until    time.Time // nothing is sent before; zero while it is closed
	trial    bool      // one request is under way
}

// maxCircuits bounds what is remembered: hosts may be named by models.
const maxCircuits = 4096

// trialWait is when to ask again while the trial of a host is under way, unless
// circuits are open for a shorter time.
const trialWait = 5 * time.Second

// NewBreaker returns a breaker; nil when there is to be none.
func NewBreaker(c BreakerConfig) *Breaker {
	if c.Failures <= 0 {
		return nil
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	b := &Breaker{failures: c.Failures, open: c.Open, log: c.Log, metrics: c.Metrics, now: time.Now, circuits: map[string]*circuit{}}
	c.Metrics.watch(b)
	return b
}

// OpenError says that nothing was sent because the host's circuit is open.
type OpenError struct {
	Host     string
	Failures int           // in a row
	Wait     time.Duration // until a request is tried
}

func (e *OpenError) Error() string {
	return fmt.Sprintf("%s failed %d times in a row, so nothing is sent to it for %s", e.Host, e.Failures, e.Wait.Round(time.Millisecond))
}

// begin asks whether a request to host may leave; key tells apart the settings
// that it is reached with. After it, done is called with how it went.
func (b *Breaker) begin(key, host string) (done func(context.Context, result), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.circuits[key]
	if c == nil || c.until.IsZero() {
		return func(ctx context.Context, r result) { b.closedDone(ctx, key, host, r) }, nil
	}
	if c.trial {
		return nil, &OpenError{Host: host, Failures: c.failures, Wait: min(b.open, trialWait)}
	}
	if wait := c.until.Sub(b.now()); wait > 0 {
		return nil, &OpenError{Host: host, Failures: c.failures, Wait: wait}
	}
	c.trial = true
	return func(ctx context.Context, r result) { b.trialDone(ctx, key, c, r) }, nil
}

// result is how a request went.
type result int

const (
	nothingSaid result = iota // about the host: we gave it up, or refused the address
	answered
	hostFailed
)

func (b *Breaker) closedDone(ctx context.Context, key, host string, r result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.circuits[key]
	switch {
	case r == nothingSaid, c != nil && !c.until.IsZero(): // another request has opened it meanwhile
		return
	case r == answered:
		delete(b.circuits, key)
		return
	case c == nil:
		b.makeRoom()
		c = &circuit{host: host}
		b.circuits[key] = c
	}
	if c.failures++; c.failures >= b.failures {
		c.until = b.now().Add(b.open)
		b.log.WarnContext(ctx, "circuit opened, nothing is sent to this host for a while", "host", host, "failures", c.failures, "wait", b.open)
		b.metrics.circuitOpened(ctx)
	}
}

func (b *Breaker) trialDone(ctx context.Context, key string, c *circuit, r result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.trial = false
	switch r {
	case answered:
		delete(b.circuits, key)
		b.log.InfoContext(ctx, "circuit closed", "host", c.host)
	case hostFailed:
		c.failures++
		c.until = b.now().Add(b.open)
	}
}

// makeRoom forgets a host, a closed one if there is one.
func (b *Breaker) makeRoom() {
	if len(b.circuits) < maxCircuits {
		return
	}
	some := ""
	for key, c := range b.circuits {
		if some = key; c.until.IsZero() {
			break
		}
	}
	delete(b.circuits, some)
}

// opened counts the hosts that nothing is sent to.
func (b *Breaker) opened() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, c := range b.circuits {
		if !c.until.IsZero() {
			n++
		}
	}
	return n
}

// guarded sends requests through a breaker.
type guarded struct {
	base    http.RoundTripper
	breaker *Breaker
	metrics *Metrics
	key     string // of the settings
}

// RoundTrip implements http.RoundTripper.
func (g *guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if g.breaker == nil {
		resp, err := g.base.RoundTrip(r)
		if errors.Is(err, ErrRefused) {
			g.metrics.refused(r.Context(), refusedAddress)
		}
		return resp, err
	}
	host := strings.ToLower(r.URL.Host)
	done, err := g.breaker.begin(g.key+"/"+host, host)
	if err != nil {
		g.metrics.refused(r.Context(), refusedCircuit)
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	said := nothingSaid
	defer func() { done(r.Context(), said) }()
	resp, err := g.base.RoundTrip(r)
	said = outcome(resp, err)
	if errors.Is(err, ErrRefused) {
		g.metrics.refused(r.Context(), refusedAddress)
	}
	return resp, err
}

// outcome says what an exchange tells about the host. A request that we gave up
// for other reasons than time tells nothing.
func outcome(resp *http.Response, err error) result {
	switch {
	case errors.Is(err, ErrRefused), errors.Is(err, context.Canceled):
		return nothingSaid
	case err != nil:
		return hostFailed
	case resp.StatusCode >= 500 && resp.StatusCode != http.StatusNotImplemented && resp.StatusCode != http.StatusHTTPVersionNotSupported:
		return hostFailed
	}
	return answered
}
