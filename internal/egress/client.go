package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"sync/atomic"
	"time"
)

// Config of a Client. The zero value reaches public addresses only.
type Config struct {
	// Allow lists ranges that may be reached although they are not public.
	Allow []netip.Prefix
	// UserAgent names us; empty means "holdfast".
	UserAgent string
}

// Client sends requests. It is safe for concurrent use.
type Client struct {
	userAgent string
	reads     *http.Client // keeps connections, follows redirects
	once      *http.Client // a fresh connection for each request, no redirects
}

const (
	maxRedirects    = 5
	maxHeaderBytes  = 64 << 10
	defaultMaxBytes = 1 << 20
)

var errRedirects = errors.New("too many redirects")

// New returns a client.
func New(c Config) *Client {
	if c.UserAgent == "" {
		c.UserAgent = "holdfast"
	}
	reads := transport(c.Allow)
	once := transport(c.Allow)
	// net/http repeats a request by itself when a connection that was used
	// before breaks and the request has no body, or carries an Idempotency-Key.
	// A connection that was never used before is never repeated on.
	once.DisableKeepAlives = true
	once.ForceAttemptHTTP2 = false
	once.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	return &Client{
		userAgent: c.UserAgent,
		reads:     &http.Client{Transport: reads, CheckRedirect: follow},
		once: &http.Client{Transport: once, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}},
	}
}

// Transport returns a guarded transport for clients of other libraries, which
// bring their own time limits. It keeps connections and follows no redirects.
func Transport(c Config) *http.Transport { return transport(c.Allow) }

func transport(allow []netip.Prefix) *http.Transport {
	return &http.Transport{
		Proxy:                  nil, // a proxy would resolve names behind our back
		DialContext:            dialer(allow).DialContext,
		ForceAttemptHTTP2:      true,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    8,
		IdleConnTimeout:        30 * time.Second,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}

// follow lets a read be redirected, but not from https to http, and never takes
// what was meant for one host to another.
func follow(r *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return errRedirects
	}
	first := via[0].URL
	if r.URL.Scheme != "https" && (r.URL.Scheme != "http" || via[len(via)-1].URL.Scheme == "https") {
		return fmt.Errorf("redirect from %s to %s refused", via[len(via)-1].URL.Scheme, r.URL.Scheme)
	}
	if r.URL.Host != first.Host || r.URL.Scheme != first.Scheme {
		agent, accept := r.Header.Get("User-Agent"), r.Header.Get("Accept")
		r.Header = http.Header{}
		r.Header.Set("User-Agent", agent)
		if accept != "" {
			r.Header.Set("Accept", accept)
		}
	}
	return nil
}

// Request is one request.
type Request struct {
	Method string
	URL    string
	Header http.Header
	Body   []byte // nil for none
	// Read allows what only a read may have: redirects and connections that
	// were used before.
	Read bool
	// MaxBytes bounds the body that is returned; zero means 1 MiB.
	MaxBytes int64
}

// Response is an answer whose body has been read as far as allowed.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
	// Truncated says that the body was longer than MaxBytes.
	Truncated bool
	// Broken is why the body ended before its end; nil when it did not.
	Broken error
	URL    string // after redirects
}

// Error is why there is no answer.
type Error struct {
	// Sent says that the request, or a part of it, may have left.
	Sent bool
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Do sends a request and reads the answer. It blocks until then or until ctx
// ends. Every error is an *Error; its text holds neither headers nor the body.
// It never repeats a request that is not a Read.
func (c *Client) Do(ctx context.Context, r Request) (Response, error) {
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, nil)
	if err != nil {
		return Response{}, &Error{Err: errors.New("request is not valid: method or URL cannot be used")}
	}
	if req.URL.Scheme != "http" && req.URL.Scheme != "https" || req.URL.Hostname() == "" {
		return Response{}, &Error{Err: errors.New("URL must begin with http:// or https:// and name a host")}
	}
	for k, v := range r.Header {
		req.Header[http.CanonicalHeaderKey(k)] = v
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", c.userAgent)
	}
	if r.Body != nil {
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(r.Body)), int64(len(r.Body))
		if r.Read {
			req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(r.Body)), nil }
		}
	}
	client := c.once
	if r.Read {
		client = c.reads
	}
	resp, err := client.Do(req)
	if err != nil {
		return Response{}, &Error{Sent: sent.Load(), Err: plain(ctx, err)}
	}
	defer resp.Body.Close()
	limit := r.MaxBytes
	if limit <= 0 {
		limit = defaultMaxBytes
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	out := Response{Status: resp.StatusCode, Header: resp.Header, Body: body, URL: resp.Request.URL.String()}
	if int64(len(body)) > limit {
		out.Body, out.Truncated = body[:limit], true
	} else if err != nil {
		out.Broken = plain(ctx, err)
	}
	return out, nil
}

// plain takes the URL out of an error: it may hold arguments, and it says
// nothing that the reader does not know.
func plain(ctx context.Context, err error) error {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err
	}
	if cause := context.Cause(ctx); cause != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return cause
	}
	return err
}
