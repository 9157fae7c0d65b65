package door_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
)

// TestCaseA09_SlowSenders holds the door with headers and bodies that hardly
// move, also of requests that are refused, and with answers and streams that
// nobody reads. They are cut at their deadlines, while posts stay quick and event
// streams go on past all of them; afterwards nothing of them is left. It runs
// alone, to count goroutines.
func TestCaseA09_SlowSenders(t *testing.T) {
	heads, bodies, streams, deaf := 500, 200, 20, 20
	if os.Getenv("CI") != "" || testing.Short() {
		heads, bodies, streams, deaf = 50, 20, 5, 5
	}
	const deadline = 2 * time.Second
	d, _ := rig(t, func(c *door.Config) { c.BodyTimeout, c.WriteTimeout = deadline, deadline })
	d.Raw("POST /v1/take", door.Public, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			door.Fail(w, r, err)
			return
		}
		_, _ = io.WriteString(w, "taken")
	}))
	d.Raw("GET /v1/ticks", authn.Viewer, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, err := door.NewStream(w)
		for err == nil {
			err = s.Send("", "", []byte("tick"))
			select {
			case <-r.Context().Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}))
	// More than the sockets of both sides hold.
	var gaveUp atomic.Int64
	block := bytes.Repeat([]byte("x"), 1<<20)
	d.Raw("GET /v1/much", door.Public, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 64 {
			if _, err := w.Write(block); err != nil {
				gaveUp.Add(1)
				return
			}
		}
	}))
	d.Raw("GET /v1/flood", door.Public, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s, err := door.NewStream(w)
		for err == nil {
			err = s.Send("", "", block[:64<<10])
		}
		gaveUp.Add(1)
	}))
	var open atomic.Int64
	srv := door.NewServer("127.0.0.1:0", d.Handler())
	restore := srv.Hasten(deadline, func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		}
	})
	t.Cleanup(restore)
	doortest.Run(t, srv)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	post := func() (time.Duration, error) {
		begun := time.Now()
		res, err := client.Post("http://"+srv.Address()+"/v1/take", "text/plain", strings.NewReader("x"))
		if err != nil {
			return 0, err
		}
		defer res.Body.Close()
		if text, err := io.ReadAll(res.Body); err != nil || string(text) != "taken" {
			return 0, fmt.Errorf("%d %s %w", res.StatusCode, text, err)
		}
		return time.Since(begun), nil
	}
	if _, err := post(); err != nil {
		t.Fatal(err)
	}
	client.CloseIdleConnections()
	drained(t, &open)
	goroutines := runtime.NumGoroutine()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var readers, slow sync.WaitGroup
	var ticks atomic.Int64
	ended := make(chan error, streams)
	for range streams {
		req, err := http.NewRequestWithContext(ctx, "GET", "http://"+srv.Address()+"/v1/ticks", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+doortest.Token(authn.Viewer))
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		readers.Go(func() {
			defer res.Body.Close()
			lines := bufio.NewScanner(res.Body)
			for lines.Scan() {
				if lines.Text() == "data: tick" {
					ticks.Add(1)
				}
			}
			if ctx.Err() == nil {
				ended <- fmt.Errorf("a stream ended: %w", lines.Err())
			}
		})
	}
	begun := time.Now()
	var unread []net.Conn // nothing is read from them
	for range heads {
		slow.Go(func() { drip(t, srv.Address(), "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ", deadline) })
	}
	for range bodies {
		slow.Go(func() {
			drip(t, srv.Address(), "POST /v1/take HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\n", deadline)
		})
	}
	for _, refused := range []string{"POST /v1/nowhere", "POST /v1/echo/abc", "PUT /v1/take"} { // 404, 401, 405
		for range deaf {
			slow.Go(func() {
				drip(t, srv.Address(), refused+" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n", deadline)
			})
		}
	}
	for range deaf {
		for _, path := range []string{"/v1/much", "/v1/flood"} {
			conn, err := net.Dial("tcp", srv.Address())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			unread = append(unread, conn)
		}
	}
	var took []time.Duration
	for range time.Tick(20 * time.Millisecond) {
		if time.Since(begun) > 2*deadline {
			break
		}
		one, err := post()
		if err != nil {
			t.Errorf("a normal post: %v", err)
		}
		took = append(took, one)
	}
	slow.Wait()
	for end := time.Now().Add(20 * time.Second); gaveUp.Load() < int64(len(unread)) && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
	}
	if n := gaveUp.Load(); n != int64(len(unread)) {
		t.Errorf("the server gave up on %d of %d clients that read nothing", n, len(unread))
	}
	for _, conn := range unread {
		_ = conn.Close()
	}
	slices.Sort(took)
	p95 := took[len(took)*95/100]
	t.Logf("%d posts beside %d slow heads, %d slow bodies and %d slow readers: p50 %s, p95 %s", len(took), heads, bodies+3*deaf, 2*deaf, took[len(took)/2], p95)
	if p95 > time.Second {
		t.Errorf("p95 of normal posts is %s", p95)
	}
	before := ticks.Load()
	for end := time.Now().Add(10 * time.Second); ticks.Load() < before+int64(streams) && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
	}
	if got := ticks.Load() - before; got < int64(streams) {
		t.Errorf("%d events of %d streams after the deadlines", got, streams)
	}
	cancel()
	readers.Wait()
	close(ended)
	for err := range ended {
		t.Error(err)
	}
	client.CloseIdleConnections()
	drained(t, &open)
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > goroutines && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines, %d before", n, goroutines)
	}
}

// drip sends head at once and then a byte now and then, until the server cuts the
// connection. It has to, soon after deadline.
func drip(t *testing.T, addr, head string, deadline time.Duration) {
	conn, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		t.Errorf("dial: %v", err)
		return
	}
	defer conn.Close()
	begun := time.Now()
	if _, err := io.WriteString(conn, head); err != nil {
		t.Errorf("head: %v", err)
		return
	}
	cut := make(chan struct{})
	go func() {
		defer close(cut)
		_ = conn.SetReadDeadline(begun.Add(deadline + 20*time.Second))
		_, _ = io.Copy(io.Discard, conn) // a 408, a 400 or nothing; then the end
	}()
	for {
		select {
		case <-cut:
			if held := time.Since(begun); held > deadline+10*time.Second {
				t.Errorf("a slow sender held its connection for %s", held)
			}
			return
		case <-time.After(250 * time.Millisecond):
			_, _ = conn.Write([]byte("x")) // fails once it is cut
		}
	}
}

// drained waits until the server has no connection.
func drained(t *testing.T, open *atomic.Int64) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); open.Load() > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d connections are left open", open.Load())
		}
	}
}
