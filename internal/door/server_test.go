package door_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/internal/telemetry"
)

// TestCaseA09_SlowBody sends a body one byte at a time: the request ends at the
// body's deadline, while a stream on the same server goes on.
func TestCaseA09_SlowBody(t *testing.T) {
	t.Parallel()
	d, _ := rig(t, func(c *door.Config) { c.BodyTimeout = 300 * time.Millisecond })
	d.Raw("GET /v1/ticks", authn.Viewer, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, err := door.NewStream(w)
		for i := 0; err == nil && i < 20; i++ {
			err = s.Send(fmt.Sprint(i), "", []byte("tick\nbeat"))
			select {
			case <-r.Context().Done():
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}))
	srv := doortest.Serve(t, d)

	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+srv.Address()+"/v1/ticks", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+doortest.Token(authn.Viewer))
	stream, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()

	conn, err := net.Dial("tcp", srv.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	begun := time.Now()
	fmt.Fprintf(conn, "POST /v1/echo/abc HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{", doortest.Token(authn.Operator))
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	defer answer.Body.Close()
	if took := time.Since(begun); answer.StatusCode != http.StatusRequestTimeout || took > 5*time.Second {
		t.Errorf("slow body: %d after %s", answer.StatusCode, took)
	}

	all, err := io.ReadAll(stream.Body)
	if err != nil || strings.Count(string(all), "data: tick\ndata: beat\n\n") != 20 {
		t.Errorf("the stream was cut: %v\n%s", err, all)
	}
}

// TestCaseA09_LargeBodyOverASlowLine sends a body that takes longer than the
// deadline of a small one. It arrives, because it moves; one that moves less does
// not.
func TestCaseA09_LargeBodyOverASlowLine(t *testing.T) {
	t.Parallel()
	const size, step = 3 << 20, 256 << 10
	d, _ := rig(t, func(c *door.Config) { c.BodyTimeout = 500 * time.Millisecond })
	d.RawOperation(huma.Operation{OperationID: "large", Method: http.MethodPost, Path: "/v1/large", MaxBodyBytes: door.OwnBody}, door.Public, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, done, err := door.ReadBody(r, 2*size)
		defer done()
		if err != nil {
			door.Fail(w, r, err)
			return
		}
		fmt.Fprint(w, len(body))
	}))
	srv := doortest.Serve(t, d)
	for every, want := range map[time.Duration]int{100 * time.Millisecond: http.StatusOK, 3 * time.Second: http.StatusRequestTimeout} {
		conn, err := net.Dial("tcp", srv.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST /v1/large HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n", size)
		go func() {
			for range size / step {
				if _, err := conn.Write(make([]byte, step)); err != nil {
					return
				}
				time.Sleep(every)
			}
		}()
		_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%d bytes each %s: %v", step, every, err)
		}
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != want || want == http.StatusOK && string(text) != fmt.Sprint(size) {
			t.Errorf("%d bytes each %s: %d %s, want %d", step, every, answer.StatusCode, text, want)
		}
	}
}

// TestBody_HandlerMayTakeLongerThanItsBody holds that the deadline of the body
// is taken back once it is read.
func TestBody_HandlerMayTakeLongerThanItsBody(t *testing.T) {
	t.Parallel()
	d, _ := rig(t, func(c *door.Config) { c.BodyTimeout = 150 * time.Millisecond; c.Telemetry = telemetry.Discard() })
	d.Raw("POST /v1/slow", door.Public, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			door.Fail(w, r, err)
			return
		}
		select {
		case <-r.Context().Done():
			door.Fail(w, r, r.Context().Err())
		case <-time.After(500 * time.Millisecond):
			_, _ = io.WriteString(w, "done")
		}
	}))
	srv := doortest.Serve(t, d)
	res, err := http.Post("http://"+srv.Address()+"/v1/slow", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, _ := io.ReadAll(res.Body); res.StatusCode != 200 || string(body) != "done" {
		t.Errorf("%d %s", res.StatusCode, body)
	}
}

// TestStop_LetsRequestsFinish stops while a request is being worked on.
func TestStop_LetsRequestsFinish(t *testing.T) {
	t.Parallel()
	d, _ := rig(t, nil)
	working, goOn := make(chan struct{}), make(chan struct{})
	d.Raw("GET /v1/work", door.Public, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(working)
		<-goOn
		_, _ = io.WriteString(w, "done")
	}))
	srv := doortest.Serve(t, d)
	got := make(chan string, 1)
	go func() {
		res, err := http.Get("http://" + srv.Address() + "/v1/work")
		if err != nil {
			got <- err.Error()
			return
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		got <- string(body)
	}()
	<-working
	stopped := make(chan error, 1)
	go func() { stopped <- srv.Stop(t.Context()) }()
	select {
	case err := <-stopped:
		t.Errorf("stop did not wait: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	close(goOn)
	if body := <-got; body != "done" {
		t.Errorf("the request was cut: %s", body)
	}
	if err := <-stopped; err != nil {
		t.Errorf("stop: %v", err)
	}
}

func TestAbsurdHeaders_AreRefused(t *testing.T) {
	t.Parallel()
	d, _ := rig(t, nil)
	srv := doortest.Serve(t, d)
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+srv.Address()+"/openapi.json", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Large", strings.Repeat("x", 200<<10))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("%d", res.StatusCode)
	}
}
