package kind

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// exchange is one request to a server and what is known about it beside what
// the SDK tells: whether it left, how HTTP answered, and the answer's own bytes,
// with every digit.
type exchange struct {
	mu         sync.Mutex
	sent       bool
	status     int // HTTP
	retryAfter time.Duration
	raw        json.RawMessage
	tooLarge   int64 // bytes after which reading the answer was given up; zero when it was not
}

type exchangeKey struct{}

func withExchange(ctx context.Context) (context.Context, *exchange) {
	x := &exchange{}
	return context.WithValue(ctx, exchangeKey{}, x), x
}

// exchangeOf may return nil, which all methods take.
func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

func (x *exchange) markSent() {
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sent = true
}

func (x *exchange) answeredBy(status int, retryAfter time.Duration) {
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.status, x.retryAfter = status, retryAfter
}

func (x *exchange) markTooLarge(limit int64) {
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.tooLarge = limit
}

func (x *exchange) tooLargeFor() int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.tooLarge
}

// known returns what is known so far; the exchange may go on after its end was
// not waited for.
func (x *exchange) known() (sent bool, status int, retryAfter time.Duration, raw json.RawMessage) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.sent, x.status, x.retryAfter, x.raw
}

// tap listens to a transport: it hands each exchange the answer's bytes.
type tap struct {
	mcp.Transport
	// version is told what protocol an older server has agreed to.
	version func(string)
}

// Connect implements mcp.Transport.
func (t *tap) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &tapped{Connection: c, version: t.version, open: map[jsonrpc.ID]asked{}}, nil
}

type tapped struct {
	mcp.Connection
	version func(string)

	mu   sync.Mutex
	open map[jsonrpc.ID]asked
}

type asked struct {
	method   string
	exchange *exchange
}

// Write implements mcp.Connection.
func (t *tapped) Write(ctx context.Context, m jsonrpc.Message) error {
	if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() {
		t.mu.Lock()
		t.open[r.ID] = asked{r.Method, exchangeOf(ctx)}
		t.mu.Unlock()
		context.AfterFunc(ctx, func() { // nobody waits any more
			t.mu.Lock()
			defer t.mu.Unlock()
			delete(t.open, r.ID)
		})
	}
	return t.Connection.Write(ctx, m)
}

// Read implements mcp.Connection.
func (t *tapped) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := t.Connection.Read(ctx)
	if errors.Is(err, errMessageTooLarge) {
		t.tooLarge()
	}
	r, ok := m.(*jsonrpc.Response)
	if err != nil || !ok || r.Result == nil {
		return m, err
	}
	t.mu.Lock()
	a := t.open[r.ID]
	delete(t.open, r.ID)
	t.mu.Unlock()
	if x := a.exchange; x != nil {
		x.mu.Lock()
		x.raw = r.Result
		x.mu.Unlock()
	}
	switch a.method {
	case "tools/list":
		r.Result = withoutTTL(r.Result)
	case "initialize":
		var said struct {
			ProtocolVersion string `json:"protocolVersion"`
		}
		if json.Unmarshal(r.Result, &said) == nil && t.version != nil {
			t.version(said.ProtocolVersion)
		}
	}
	return m, err
}

// tooLarge is told whose answer it is when only one is waited for.
func (t *tapped) tooLarge() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.open) != 1 {
		return
	}
	for _, a := range t.open {
		a.exchange.markTooLarge(maxMessageBytes)
	}
}

// withoutTTL takes the server's wish away that a list be kept: the tool is
// compared with what the server has now.
func withoutTTL(raw json.RawMessage) json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil || object["ttlMs"] == nil {
		return raw
	}
	object["ttlMs"] = json.RawMessage("0")
	out, err := json.Marshal(object)
	if err != nil {
		return raw
	}
	return out
}
