package kind

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// maxStreamBytes bounds one HTTP answer of an MCP server, a stream included.
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
	resp.Body = &bounded{ReadCloser: resp.Body, left: maxStreamBytes}
	return resp, nil
}

func (t *mcpTripper) setVersion(v string) { t.version.Store(&v) }

// bounded fails when a body is too long.
type bounded struct {
	io.ReadCloser
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the server sent more than %d bytes", maxStreamBytes)
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
