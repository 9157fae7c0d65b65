//go:build !holdfast_broken_ledger

package tools_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// oracle is the other side of every cell. It appends each arrival to a file
// before it answers, and what it counts is read from that file.
type oracle struct {
	*httptest.Server
	door *shutDoor
	file string

	mu      sync.Mutex
	log     *os.File
	cells   map[string]*cell
	known   map[string]bool // cell and key → applied
	seen    map[string]int  // cell → arrivals
	applied map[string]int  // cell → effects, for who looks it up
}

func newOracle(t *testing.T, cells []*cell) *oracle {
	o := &oracle{file: filepath.Join(t.TempDir(), "arrivals"), cells: map[string]*cell{}, known: map[string]bool{}, seen: map[string]int{}, applied: map[string]int{}}
	for _, c := range cells {
		o.cells[c.id] = c
	}
	var err error
	if o.log, err = os.OpenFile(o.file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		t.Fatal(err)
	}
	o.Server = httptest.NewServer(o)
	o.door = newDoor(t, o)
	t.Cleanup(func() {
		o.Server.CloseClientConnections()
		o.Server.Close()
		_ = o.log.Close()
	})
	return o
}

// ServeHTTP takes one request of the cell that the path names.
func (o *oracle) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	id, key := path.Base(r.URL.Path), r.Header.Get("Idempotency-Key")
	o.mu.Lock()
	c := o.cells[id]
	if c == nil {
		o.mu.Unlock()
		http.NotFound(rw, r)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/look/") {
		effects := o.applied[id]
		o.mu.Unlock()
		rw.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(rw, `{"effects":%d}`, effects)
		return
	}
	o.seen[id]++
	first := o.seen[id] == 1
	silent := first && (c.point == pointSilentDone || c.point == pointSilentNot)
	applies := c.class != "read" && !(c.honours && o.known[id+" "+key]) && !(silent && c.point == pointSilentNot)
	if applies {
		o.known[id+" "+key] = true
		o.applied[id]++
	}
	_, err := fmt.Fprintf(o.log, "%s\t%s\t%v\n", id, key, applies)
	o.mu.Unlock()
	if err != nil {
		http.Error(rw, err.Error(), http.StatusInternalServerError)
		return
	}
	if silent {
		<-r.Context().Done() // until the caller gives up
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(rw, `{"done":true}`)
}

// tally is what the oracle's file says about one call.
type tally struct {
	requests, applied int
	keys              map[string]bool
}

func (o *oracle) tallies(t *testing.T) map[string]tally {
	t.Helper()
	b, err := os.ReadFile(o.file)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]tally{}
	for line := range strings.Lines(string(b)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 3 {
			t.Fatalf("line %q", line)
		}
		n := out[f[0]]
		if n.keys == nil {
			n.keys = map[string]bool{}
		}
		n.requests++
		if f[2] == "true" {
			n.applied++
		}
		n.keys[f[1]] = true
		out[f[0]] = n
	}
	return out
}

// shutDoor is an address that refuses connections until it is opened. It is bound
// from the start, so nobody else gets it.
type shutDoor struct {
	fd   int
	addr string
	srv  *http.Server
}

func newDoor(t *testing.T, h http.Handler) *shutDoor {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	syscall.CloseOnExec(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	d := &shutDoor{fd: fd, addr: fmt.Sprintf("127.0.0.1:%d", at.(*syscall.SockaddrInet4).Port), srv: &http.Server{Handler: h}}
	t.Cleanup(func() {
		_ = d.srv.Close()
		if d.fd >= 0 {
			_ = syscall.Close(d.fd)
		}
	})
	return d
}

func (d *shutDoor) open(t *testing.T) {
	t.Helper()
	if err := syscall.Listen(d.fd, 128); err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(d.fd), "door")
	d.fd = -1
	l, err := net.FileListener(f)
	_ = f.Close()
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = d.srv.Serve(l) }()
}
