package chaos

import (
	"net"
	"net/url"
	"sync"
	"time"
)

// line passes bytes between whoever connects to addr and one server, and can be held,
// cut or slowed down. It is safe for concurrent use.
type line struct {
	addr            string
	network, target string
	listener        net.Listener
	all             sync.WaitGroup

	mu    sync.Mutex
	delay time.Duration
	open  map[net.Conn]bool
	ended bool
}

func newLine(network, target string) (*line, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &line{addr: listener.Addr().String(), network: network, target: target, listener: listener, open: map[net.Conn]bool{}}
	l.all.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			l.all.Go(func() { l.serve(c) })
		}
	})
	return l, nil
}

// postgresLine leads to the server of a database's URL, which listens at a socket in
// the file system, and returns the URL over it.
func postgresLine(database string) (*line, string, error) {
	u, err := url.Parse(database)
	if err != nil {
		return nil, "", err
	}
	q := u.Query()
	l, err := newLine("unix", q.Get("host")+"/.s.PGSQL."+q.Get("port"))
	if err != nil {
		return nil, "", err
	}
	q.Del("host")
	q.Del("port")
	u.RawQuery, u.Host = q.Encode(), l.addr
	return l, u.String(), nil
}

func (l *line) serve(in net.Conn) {
	defer in.Close()
	out, err := net.Dial(l.network, l.target)
	if err != nil {
		return
	}
	defer out.Close()
	if !l.keep(in, out) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { l.pump(out, in) })
	both.Go(func() { l.pump(in, out) })
	both.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, in)
	delete(l.open, out)
}

func (l *line) keep(cs ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range cs {
		l.open[c] = true
	}
	return !l.ended
}

// pump copies one direction and ends both when it ends.
func (l *line) pump(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		l.mu.Lock()
		delay := l.delay
		l.mu.Unlock()
		time.Sleep(delay)
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// cut ends every connection; new ones pass.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		_ = c.Close()
	}
}

// slow makes each piece take d longer, in each direction; zero ends it.
func (l *line) slow(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = d
}

func (l *line) close() {
	_ = l.listener.Close()
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.cut()
	l.all.Wait()
}
