package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestAllowed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"8.8.8.8":                true,
		"2606:4700:4700::1111":   true,
		"127.0.0.1":              false,
		"::1":                    false,
		"::ffff:127.0.0.1":       false,
		"::ffff:169.254.169.254": false,
		"169.254.169.254":        false,
		"fd00:ec2::254":          false,
		"fe80::1%eth0":           false,
		"10.1.2.3":               false,
		"172.16.0.1":             false,
		"192.168.1.1":            false,
		"100.100.100.200":        false,
		"168.63.129.16":          false,
		"0.0.0.0":                false,
		"::":                     false,
		"::127.0.0.1":            false,
		"255.255.255.255":        false,
		"224.0.0.1":              false,
		"64:ff9b::7f00:1":        false,
		"64:ff9b::808:808":       true,
		"2002:7f00:1::":          false,
		"2001:db8::1":            false,
	} {
		if got := allowed(netip.MustParseAddr(text), nil); got != want {
			t.Errorf("%s: allowed = %v, want %v", text, got, want)
		}
	}
	allow, err := ParseAllow([]string{"127.0.0.0/8", "::1"})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"127.0.0.1": true, "::ffff:127.0.0.1": true, "::1": true, "10.0.0.1": false} {
		if got := allowed(netip.MustParseAddr(text), allow); got != want {
			t.Errorf("%s with loopback allowed: %v, want %v", text, got, want)
		}
	}
}

func TestParseAllow_NamesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	_, err := ParseAllow([]string{"10.0.0.0/8", "ten", "10.0.0.0/99"})
	if err == nil || !strings.Contains(err.Error(), `"ten"`) || !strings.Contains(err.Error(), "10.0.0.0/99") {
		t.Errorf("error %v does not name both bad ranges", err)
	}
}

// local returns a client that may reach the test's own servers.
func local(t *testing.T) *Client {
	t.Helper()
	allow, err := ParseAllow([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{Allow: allow})
}

func wantRefused(t *testing.T, err error) {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok || !errors.Is(err, ErrRefused) {
		t.Fatalf("error is %v, want a refusal", err)
	}
	if e.Sent {
		t.Error("a refused request counts as sent")
	}
}

func TestDo_RefusesInnerAddresses(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request arrived") }))
	defer srv.Close()
	port := srv.URL[strings.LastIndex(srv.URL, ":"):]
	closed := New(Config{})
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "127.1"} {
		_, err := closed.Do(t.Context(), Request{Method: "GET", URL: "http://" + host + port + "/", Read: true})
		if err == nil {
			t.Errorf("%s was reached", host)
			continue
		}
		if e, ok := errors.AsType[*Error](err); !ok || e.Sent {
			t.Errorf("%s: %v counts as sent", host, err)
		}
	}
	_, err := local(t).Do(t.Context(), Request{Method: "GET", URL: "http://169.254.169.254/latest/meta-data/", Read: true})
	wantRefused(t, err)
}

func TestDo_RefusesARedirectToMetadata(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.RedirectHandler("http://169.254.169.254/latest/meta-data/", http.StatusFound))
	defer srv.Close()
	_, err := local(t).Do(t.Context(), Request{Method: "GET", URL: srv.URL, Read: true})
	if !errors.Is(err, ErrRefused) {
		t.Fatalf("error is %v, want a refusal", err)
	}
}

func TestDo_WritesAreNotRedirected(t *testing.T) {
	t.Parallel()
	var hits atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		http.Redirect(w, r, "/again", http.StatusTemporaryRedirect)
	}))
	defer srv.Close()
	resp, err := local(t).Do(t.Context(), Request{Method: "POST", URL: srv.URL, Body: []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	if resp.Status != http.StatusTemporaryRedirect || hits.Load() != 1 {
		t.Errorf("status %d after %d requests, want 307 after 1", resp.Status, hits.Load())
	}
}

func TestDo_DropsHeadersAtAnotherHost(t *testing.T) {
	t.Parallel()
	got := make(chan http.Header, 1)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header }))
	defer other.Close()
	first := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusFound))
	defer first.Close()
	_, err := local(t).Do(t.Context(), Request{Method: "GET", URL: first.URL, Read: true,
		Header: http.Header{"Authorization": {"Bearer s3cret"}, "X-Api-Key": {"s3cret"}, "Accept": {"text/html"}}})
	if err != nil {
		t.Fatal(err)
	}
	h := <-got
	if h.Get("Authorization") != "" || h.Get("X-Api-Key") != "" {
		t.Errorf("credentials reached another host: %v", h)
	}
	if h.Get("Accept") != "text/html" {
		t.Errorf("Accept is %q", h.Get("Accept"))
	}
}

func TestDo_BoundsTheBody(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 1000 {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	}))
	defer srv.Close()
	resp, err := local(t).Do(t.Context(), Request{Method: "GET", URL: srv.URL, Read: true, MaxBytes: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Body) != 1000 || !resp.Truncated {
		t.Errorf("%d bytes, truncated %v", len(resp.Body), resp.Truncated)
	}
}

// A server that closes a connection between requests makes net/http repeat a
// request with an Idempotency-Key by itself. A write must arrive once.
func TestDo_NeverRepeatsAWrite(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var arrived atomic.Int64
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for n := 0; ; n++ {
					req, err := http.ReadRequest(bufio.NewReader(conn))
					if err != nil {
						return
					}
					_ = req.Body.Close()
					arrived.Add(1)
					if n == 1 {
						return // the second request of a connection is read and dropped
					}
					fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
				}
			}()
		}
	}()
	c := local(t)
	for i := range 4 {
		_, err := c.Do(t.Context(), Request{Method: "DELETE", URL: "http://" + ln.Addr().String() + "/x", Header: http.Header{"Idempotency-Key": {"k"}}})
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	if n := arrived.Load(); n != 4 {
		t.Errorf("4 writes arrived %d times", n)
	}
}

func TestDo_SaysWhetherTheRequestLeft(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := ln.Addr().String()
	ln.Close()
	c := local(t)
	_, err = c.Do(t.Context(), Request{Method: "POST", URL: "http://" + dead, Body: []byte("{}")})
	if e, ok := errors.AsType[*Error](err); !ok || e.Sent {
		t.Errorf("connection refused: %v, want not sent", err)
	}
	_, err = c.Do(t.Context(), Request{Method: "POST", URL: "http://nobody.invalid/", Body: []byte("{}")})
	if e, ok := errors.AsType[*Error](err); !ok || e.Sent {
		t.Errorf("unknown host: %v, want not sent", err)
	}
	release := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer slow.Close()
	defer close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = c.Do(ctx, Request{Method: "POST", URL: slow.URL, Body: []byte("{}")})
	if e, ok := errors.AsType[*Error](err); !ok || !e.Sent || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no answer in time: %v, want sent and a deadline", err)
	}
	if strings.Contains(err.Error(), slow.URL) {
		t.Errorf("error %q holds the URL", err)
	}
}
