// Package linetest gives tests a TCP line to a server that goes silent without a
// word, as behind a firewall or in a network that came apart.
package linetest

import (
	"context"
	"net"
	"net/url"
	"sync"
	"testing"
)

// Line passes bytes between those who connect to Addr and one server. It is safe for
// concurrent use and ends with the test.
type Line struct {
	Addr string // "127.0.0.1:4711"

	network, target string
	ctx             context.Context
	mu              sync.Mutex
	changed         *sync.Cond
	held            bool
	age             int // connections of an earlier age are forgotten
	open            map[net.Conn]bool
	hear            func() func([]byte)
	end             func()
}

// New opens a line to a server: "tcp" and an address, or "unix" and a path.
func New(t testing.TB, network, target string) *Line {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Line{Addr: listener.Addr().String(), network: network, target: target, ctx: ctx, open: map[net.Conn]bool{}}
	l.changed = sync.NewCond(&l.mu)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { l.serve(c) })
		}
	})
	l.end = sync.OnceFunc(func() {
		cancel()
		_ = listener.Close()
		l.mu.Lock()
		for c := range l.open {
			_ = c.Close()
		}
		l.changed.Broadcast()
		l.mu.Unlock()
		all.Wait()
	})
	t.Cleanup(l.end)
	return l
}

// Close ends all connections, before the test ends.
func (l *Line) Close() { l.end() }

// Postgres opens a line to the server of a database's URL and returns the URL that
// leads over it. The server may listen at a socket in the file system.
func Postgres(t testing.TB, database string) (*Line, string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal("parse the database's URL")
	}
	network, target, q := "tcp", u.Host, u.Query()
	if dir := q.Get("host"); dir != "" {
		network, target = "unix", dir+"/.s.PGSQL."+q.Get("port")
		q.Del("host")
		q.Del("port")
		u.RawQuery = q.Encode()
	}
	l := New(t, network, target)
	u.Host = l.Addr
	return l, u.String()
}

// Hold lets nothing pass until Pass: what is said meanwhile waits, and who connects
// hears nothing.
func (l *Line) Hold() { l.set(func() { l.held = true }) }

// Pass ends Hold. Nothing that was said is missing.
func (l *Line) Pass() { l.set(func() { l.held = false }) }

// Forget drops the connections that are open: neither side hears anything again, not
// even of an end. New ones pass.
func (l *Line) Forget() { l.set(func() { l.age++ }) }

// Hear gives what the server says to f as well, before the client gets it: f is called
// for each new connection, and its result with each piece of that connection in order.
func (l *Line) Hear(f func() func([]byte)) { l.set(func() { l.hear = f }) }

func (l *Line) set(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	l.changed.Broadcast()
}

func (l *Line) serve(in net.Conn) {
	l.mu.Lock()
	age := l.age
	l.mu.Unlock()
	if !l.keep(in) || !l.passes(age) {
		return
	}
	var d net.Dialer
	out, err := d.DialContext(l.ctx, l.network, l.target)
	if err != nil {
		_ = in.Close()
		return
	}
	if !l.keep(out) {
		return
	}
	l.mu.Lock()
	heard := func([]byte) {}
	if l.hear != nil {
		heard = l.hear()
	}
	l.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { l.pump(out, in, age, func([]byte) {}) })
	both.Go(func() { l.pump(in, out, age, heard) })
	both.Wait()
}

// keep remembers a connection for the end of the test.
func (l *Line) keep(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		_ = c.Close()
		return false
	}
	l.open[c] = true
	return true
}

// passes waits while the line is held and reports whether a connection of that age
// still counts.
func (l *Line) passes(age int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.held && l.age == age && l.ctx.Err() == nil {
		l.changed.Wait()
	}
	return l.age == age && l.ctx.Err() == nil
}

// pump copies one direction. A forgotten connection stays open on both sides.
func (l *Line) pump(to, from net.Conn, age int, heard func([]byte)) {
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		if !l.passes(age) {
			return
		}
		if n > 0 {
			heard(b[:n])
			if _, err := to.Write(b[:n]); err != nil {
				_ = from.Close()
				return
			}
		}
		if err != nil {
			_ = to.Close()
			return
		}
	}
}
