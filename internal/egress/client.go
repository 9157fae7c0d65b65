package egress

import (
	"bytes"
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"slices"
	"sync/atomic"
	"time"
)

// Config of a Client. The zero value reaches public addresses only.
type Config struct {
	// Allow lists ranges that may be reached although they are not public.
	Allow []netip.Prefix
	// NoHosts says that definitions cannot allow hosts: Reach.Hosts counts for
	// nothing.
	NoHosts bool
	// UserAgent names us; empty means "holdfast".
	UserAgent string
	Breaker   *Breaker // nil: none
	Metrics   *Metrics // nil: none
}

// Client sends requests. It is safe for concurrent use.
type Client struct {
	userAgent string
	trippers  *trippers
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
	return &Client{userAgent: c.UserAgent, trippers: &trippers{config: c, used: list.New(), known: map[string]*list.Element{}}}
}

// Transport returns a guarded transport for clients of other libraries, which
// bring their own time limits. It keeps connections and follows no redirects.
func (c *Client) Transport(r Reach) (http.RoundTripper, error) { return c.trippers.get(r, false) }

// Via returns a client for other libraries that sends over a transport of
// Transport, or what wraps one. It follows no redirects.
func Via(t http.RoundTripper) *http.Client {
	return &http.Client{Transport: t, CheckRedirect: stay}
}

func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func transport(allow []netip.Prefix, r Reach, settings *tls.Config) *http.Transport {
	return &http.Transport{
		Proxy:                  nil, // a proxy would resolve names behind our back
		DialContext:            dialer(allow, r),
		ForceAttemptHTTP2:      true,
		TLSClientConfig:        settings,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    8,
		IdleConnTimeout:        30 * time.Second,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}

// follow lets a read be redirected, but not from https to http, and never takes
// what was meant for one host to another, nor back again.
func follow(r *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return errRedirects
	}
	if r.URL.Scheme != "https" && (r.URL.Scheme != "http" || via[len(via)-1].URL.Scheme == "https") {
		return fmt.Errorf("redirect from %s to %s refused", via[len(via)-1].URL.Scheme, r.URL.Scheme)
	}
	if slices.ContainsFunc(via, func(from *http.Request) bool { return !sameSite(from, r) }) {
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
	Reach    Reach
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
	trip, err := c.trippers.get(r.Reach, !r.Read)
	if err != nil {
		return Response{}, &Error{Err: err}
	}
	client := &http.Client{Transport: trip, CheckRedirect: stay}
	if r.Read {
		client.CheckRedirect = follow
	}
	resp, err := client.Do(req)
	if err != nil {
		return Response{}, &Error{Sent: sent.Load() && !unheard(err), Err: plain(ctx, err)}
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

// unheard reports whether the other side ended the handshake of TLS because of
// our certificate. With TLS 1.3 we learn that after the request was written, but
// nobody has read it.
func unheard(err error) bool {
	e, ok := errors.AsType[*net.OpError](err)
	return ok && e.Op == "remote error" && slices.Contains(certificateAlerts, e.Err.Error())
}

// certificateAlerts are crypto/tls's texts for alerts that only a handshake has.
// Source: RFC 8446, section 6.2.
var certificateAlerts = []string{
	"tls: bad certificate", "tls: unsupported certificate", "tls: revoked certificate", "tls: expired certificate", "tls: unknown certificate",
	"tls: unknown certificate authority", "tls: certificate required", "tls: handshake failure",
}
