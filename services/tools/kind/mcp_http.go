package kind

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// maxStreamBytes bounds one stream of an MCP server, which has many messages; an
// answer that is one message is bounded as such.
const maxStreamBytes = 32 << 20

// mcpTripper sends an MCP client's requests: with the definition's headers
// and TLS, whose secrets are read anew for each request, and bounded.
type mcpTripper struct {
	base    func() (http.RoundTripper, error)
	headers func() (http.Header, error)
	// version of the protocol that an older server wants named; the SDK names it
	// only on connections of its own.
	version atomic.Pointer[string]
}

const versionHeader = "Mcp-Protocol-Version"

// RoundTrip implements http.RoundTripper.
func (t *mcpTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	x := exchangeOf(r.Context())
	ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { x.markSent() }})
	headers, err := t.headers()
	if err != nil {
		return nil, err
	}
	r = r.Clone(ctx)
	for name, values := range headers {
		r.Header[name] = values
	}
	if v := t.version.Load(); v != nil && r.Header.Get(versionHeader) == "" {
		r.Header.Set(versionHeader, *v)
	}
	base, err := t.base()
	if err != nil {
		return nil, err
	}
	resp, err := base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if r.Method == http.MethodPost {
		x.answeredBy(resp.StatusCode, retryAfter(resp.Header.Get("Retry-After"), time.Now()))
	}
	limit := int64(maxMessageBytes)
	if media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err == nil && media == "text/event-stream" {
		limit = maxStreamBytes
	}
	resp.Body = &bounded{ReadCloser: resp.Body, limit: limit, left: limit, exchange: x}
	return resp, nil
}

func (t *mcpTripper) setVersion(v string) { t.version.Store(&v) }

// bounded fails when a body is too long.
type bounded struct {
	io.ReadCloser
	limit    int64
	left     int64
	exchange *exchange
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		var more [1]byte
		if n, err := b.ReadCloser.Read(more[:]); n == 0 {
			return 0, err
		}
		b.exchange.markTooLarge(b.limit)
		return 0, fmt.Errorf("the server sent more than %d bytes", b.limit)
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
