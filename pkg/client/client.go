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
	"strings"
	"time"
)

// DefaultServer is where "holdfast dev" listens.
const DefaultServer = "http://127.0.0.1:8787"

// maxAnswer bounds what is read of one answer.
const maxAnswer = 64 << 20

// Config says which server and who asks.
type Config struct {
	Server    string // empty means DefaultServer
	Token     string // bearer token; may be empty on the loopback of "holdfast dev"
	Namespace string // empty means the token's own
	// HTTP sends the requests; nil means a client of its own without a total
	// timeout (streams stay open; contexts bound calls).
	HTTP *http.Client
	// Attempts is how often a call that is safe to repeat is made; zero means 4,
	// which takes a few seconds when a server restarts.
	Attempts int
}

// Client calls one server. It is safe for concurrent use.
type Client struct {
	base     *url.URL
	cfg      Config
	http     *http.Client
	attempts int
}

// New checks c and returns a client; it does not connect.
func New(c Config) (*Client, error) {
	base, err := url.Parse(cmp.Or(c.Server, DefaultServer))
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("server address %q is not like https://host or http://host:port", c.Server)
	}
	if strings.ContainsAny(c.Token, " \r\n\t") {
		return nil, errors.New("the token contains white space; pass it exactly as it was printed")
	}
	hc := c.HTTP
	if hc == nil {
		hc = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	}
	return &Client{base: base, cfg: c, http: hc, attempts: cmp.Or(c.Attempts, 4)}, nil
}

// call is one request. Idempotent ones are repeated.
type call struct {
	method     string
	path       string // escaped
	query      url.Values
	body       any // nil for none
	key        string
	match      string // If-Match
	last       string // Last-Event-ID
	idempotent bool
}

func get[T any](ctx context.Context, c *Client, path string, q url.Values) (T, error) {
	var out T
	_, err := c.do(ctx, call{method: http.MethodGet, path: path, query: q, idempotent: true}, &out)
	return out, err
}

// post sends a request that carries a key of its own, so that it may be repeated.
func post[T any](ctx context.Context, c *Client, path string, body any) (T, error) {
	var out T
	_, err := c.do(ctx, call{method: http.MethodPost, path: path, body: body, key: newKey(), idempotent: true}, &out)
	return out, err
}

func (c *Client) do(ctx context.Context, r call, out any) (http.Header, error) {
	var payload []byte
	if r.body != nil {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false) // raw values keep their bytes
		if err := enc.Encode(r.body); err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		payload = b.Bytes()
	}
	for attempt := 1; ; attempt++ {
		header, err := c.once(ctx, r, payload, out)
		if err == nil || !r.idempotent || attempt >= c.attempts || ctx.Err() != nil {
			return header, err
		}
		wait, again := retryable(err, attempt)
		if !again {
			return header, err
		}
		select {
		case <-ctx.Done():
			return header, err
		case <-time.After(wait):
		}
	}
}

// retryable says whether a repeat may help, and after which wait.
func retryable(err error, attempt int) (time.Duration, bool) {
	backoff := 100 * time.Millisecond << min(attempt-1, 5)
	backoff = backoff/2 + randv2.N(backoff)
	if e, ok := errors.AsType[*Error](err); ok {
		switch e.Status {
		case http.StatusServiceUnavailable, http.StatusTooManyRequests:
			return max(backoff, min(e.RetryAfter, 5*time.Second)), true
		case http.StatusBadGateway, http.StatusGatewayTimeout:
			return backoff, true
		}
		return 0, false
	}
	return backoff, errors.Is(err, ErrUnreachable)
}

func (c *Client) once(ctx context.Context, r call, payload []byte, out any) (http.Header, error) {
	resp, err := c.send(ctx, r, payload, "application/json")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read answer of %s: %w: %w", c.base, ErrUnreachable, err)
	}
	if resp.StatusCode/100 != 2 {
		return resp.Header, problem(resp, body)
	}
	if out == nil || len(body) == 0 {
		return resp.Header, nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return resp.Header, fmt.Errorf("answer of %s %s is not what this version understands: %w", r.method, r.path, err)
	}
	return resp.Header, nil
}

func (c *Client) send(ctx context.Context, r call, payload []byte, accept string) (*http.Response, error) {
	u := *c.base
	u.RawPath = strings.TrimSuffix(c.base.EscapedPath(), "/") + r.path
	path, err := url.PathUnescape(u.RawPath)
	if err != nil {
		return nil, fmt.Errorf("path %s: %w", u.RawPath, err)
	}
	u.Path, u.RawQuery = path, r.query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), bytes.NewReader(payload))
	if err != nil {
		return nil, err
	}
	if payload == nil {
		req.Body, req.GetBody = nil, nil
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", accept+", application/problem+json")
	req.Header.Set("User-Agent", "holdfast-client")
	if c.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.cfg.Token)
	}
	if c.cfg.Namespace != "" {
		req.Header.Set("Holdfast-Namespace", c.cfg.Namespace)
	}
	if r.last != "" {
		req.Header.Set("Last-Event-ID", r.last)
	}
	if r.match != "" {
		req.Header.Set("If-Match", r.match)
	}
	if r.key != "" {
		req.Header.Set("Idempotency-Key", r.key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err // it repeats method and address
		}
		return nil, fmt.Errorf("%w %s: %w", ErrUnreachable, c.base, err)
	}
	return resp, nil
}

// Page is one page of a list. Cursor continues after it; empty on the last.
type Page[T any] struct {
	Items      []T    `json:"items"`
	NextCursor string `json:"next_cursor,omitempty"`
}

// PageRequest asks for one page. Zero means 50 items from the start.
type PageRequest struct {
	Limit  int // at most 500
	Cursor string
}

func (p PageRequest) values() url.Values {
	q := url.Values{}
	if p.Limit > 0 {
		q.Set("limit", fmt.Sprint(p.Limit))
	}
	set(q, "cursor", p.Cursor)
	return q
}

func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

// newKey is a fresh Idempotency-Key.
func newKey() string { return rand.Text() }
