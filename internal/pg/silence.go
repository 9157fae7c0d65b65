package pg

import (
	"context"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// silence is how long a line may say nothing while somebody waits at it. The roles
// end every statement after 30 s, so who waits longer waits at a line that was dropped
// without a word: by a firewall, with its node, by a pooler that hangs. The kernel
// notices after a quarter of an hour at the earliest, and not at all when the one
// that hangs still acknowledges.
const silence = 45 * time.Second

// listening wraps dial: its connections close themselves after limit of silence, and
// whoever waits gets an error that is Transient.
func listening(dial pgconn.DialFunc, limit time.Duration) pgconn.DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &line{Conn: c, limit: limit}, nil
	}
}

// line ends by closing because deadlines belong to pgconn, which sets its own.
type line struct {
	net.Conn
	limit time.Duration
}

func (l *line) Read(b []byte) (int, error) {
	t := time.AfterFunc(l.limit, l.giveUp)
	defer t.Stop()
	return l.Conn.Read(b)
}

func (l *line) Write(b []byte) (int, error) {
	t := time.AfterFunc(l.limit, l.giveUp)
	defer t.Stop()
	return l.Conn.Write(b)
}

func (l *line) giveUp() { _ = l.Close() }
