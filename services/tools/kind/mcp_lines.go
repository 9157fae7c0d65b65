package kind

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxMessageBytes bounds one message of an MCP server.
const maxMessageBytes = 8 << 20

var errMessageTooLarge = fmt.Errorf("the server sent a message of more than %d bytes", maxMessageBytes)

// lines speaks to a child in lines of JSON, the stdio transport of MCP. Unlike
// the SDK's it bounds messages and knows whether a request has left.
type lines struct {
	child  *child
	log    *slog.Logger
	writes sync.Mutex
	in     chan lineOrError
	closed chan struct{}
	once   sync.Once
}

type lineOrError struct {
	line []byte
	err  error
}

var (
	_ mcp.Transport  = (*lines)(nil)
	_ mcp.Connection = (*lines)(nil)
)

func newLines(c *child, log *slog.Logger) *lines {
	l := &lines{child: c, log: log, in: make(chan lineOrError), closed: make(chan struct{})}
	go l.readAll()
	return l
}

// Connect implements mcp.Transport; the program runs already.
func (l *lines) Connect(context.Context) (mcp.Connection, error) { return l, nil }

// SessionID is empty: a child is one session.
func (l *lines) SessionID() string { return "" }

func (l *lines) readAll() {
	r := bufio.NewReaderSize(l.child.stdout, 64<<10)
	for noise := 0; ; {
		line, err := readLine(r)
		if line = bytes.TrimSpace(line); err == nil && (len(line) == 0 || line[0] != '{') {
			// Programs print greetings there although they must not.
			if noise++; noise == 1 && len(line) > 0 {
				l.log.Debug("mcp server prints what is no message; it is left out")
			}
			continue
		}
		select {
		case l.in <- lineOrError{line, err}:
		case <-l.closed:
			return
		}
		if err != nil {
			return
		}
	}
}

func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > maxMessageBytes {
			return nil, errMessageTooLarge
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// Read implements mcp.Connection.
func (l *lines) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case got := <-l.in:
		if got.err != nil {
			return nil, got.err
		}
		return jsonrpc.DecodeMessage(got.line)
	case <-l.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write implements mcp.Connection.
func (l *lines) Write(ctx context.Context, m jsonrpc.Message) error {
	raw, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	l.writes.Lock()
	defer l.writes.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	exchangeOf(ctx).markSent()
	return l.child.write(ctx, append(raw, '\n'))
}

// Close implements mcp.Connection.
func (l *lines) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.child.close()
}
