package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// serve returns a client of a server that answers with h and counts requests.
func serve(t *testing.T, h http.HandlerFunc) (*Client, *atomic.Int64) {
	t.Helper()
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		h(w, r)
	}))
	t.Cleanup(s.Close)
	c, err := New(Config{Server: s.URL, Token: "t0ken", Namespace: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	return c, &n
}

func TestStartSendsItsKeyAgain(t *testing.T) {
	t.Parallel()
	var keys []string
	var body string
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		b, _ := io.ReadAll(r.Body)
		body = string(b)
		if len(keys) == 1 {
			w.Header().Set("Retry-After", "1")
			http.Error(w, `{"code":"unavailable"}`, http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Idempotency-Replayed", "true")
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, `{"run_id":"0198c2aa-0000-7000-8000-000000000001","status":"queued","status_url":"/v1/runs/x"}`)
	})
	got, err := c.Start(t.Context(), StartRequest{Agent: "triage", Input: json.RawMessage(`{"id":9007199254740993,"t":"a<b"}`)})
	if err != nil {
		t.Fatal(err)
	}
	want := Started{RunID: "0198c2aa-0000-7000-8000-000000000001", Status: "queued", StatusURL: "/v1/runs/x", Replayed: true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Start (-want +got)\n%s", diff)
	}
	if len(keys) != 2 || keys[0] == "" || keys[0] != keys[1] {
		t.Errorf("keys = %q, want the same one twice", keys)
	}
	if want := `{"input":{"id":9007199254740993,"t":"a<b"}}` + "\n"; body != want {
		t.Errorf("body = %q, want %q", body, want)
	}
}

func TestOnlySafeCallsAreRepeated(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		call func(context.Context, *Client) error
		want int64
	}{
		"a read":           {func(ctx context.Context, c *Client) error { _, err := c.Run(ctx, "x"); return err }, 2},
		"a decision":       {func(ctx context.Context, c *Client) error { _, err := c.Decide(ctx, "x", Decision{}); return err }, 2},
		"a command":        {func(ctx context.Context, c *Client) error { _, err := c.Cancel(ctx, "x", ""); return err }, 2},
		"a new token":      {func(ctx context.Context, c *Client) error { _, err := c.CreateToken(ctx, TokenRequest{}); return err }, 1},
		"a resolved doubt": {func(ctx context.Context, c *Client) error { _, err := c.Resolve(ctx, "x", Resolution{}); return err }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, n := serve(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusBadGateway) })
			c.attempts = 2
			if err := tc.call(t.Context(), c); StatusOf(err) != http.StatusBadGateway {
				t.Errorf("error = %v, want status 502", err)
			}
			if n.Load() != tc.want {
				t.Errorf("%d requests, want %d", n.Load(), tc.want)
			}
		})
	}
}

func TestProblemsBecomeErrors(t *testing.T) {
	t.Parallel()
	c, n := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer t0ken" || r.Header.Get("Holdfast-Namespace") != "shop" {
			t.Errorf("headers = %v", r.Header)
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusConflict)
		fmt.Fprint(w, `{"type":"about:blank","title":"Conflict","status":409,"code":"already_decided","detail":"decided by ben",`+
			`"errors":[{"message":"unknown field","file":"a.yaml","line":3,"column":5}],"request_id":"r1"}`)
	})
	_, err := c.Decide(t.Context(), "a1", Decision{Decision: "approve"})
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("error = %v, want *Error", err)
	}
	want := &Error{Status: 409, Code: "already_decided", Title: "Conflict", Detail: "decided by ben", RequestID: "r1",
		Places: []Place{{Message: "unknown field", File: "a.yaml", Line: 3, Column: 5}}}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Errorf("error (-want +got)\n%s", diff)
	}
	if got, want := err.Error(), "decided by ben\na.yaml:3:5: unknown field"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
	if n.Load() != 1 {
		t.Errorf("%d requests, want 1: a conflict is not repeated", n.Load())
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(nil)
	s.Close()
	c, err := New(Config{Server: s.URL, Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = c.Run(t.Context(), "x"); !errors.Is(err, ErrUnreachable) {
		t.Errorf("error = %v, want ErrUnreachable", err)
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	for _, bad := range []Config{{Server: "127.0.0.1:8787"}, {Server: "ftp://x"}, {Server: "http://"}, {Token: "a\nb"}} {
		if _, err := New(bad); err == nil {
			t.Errorf("New(%+v) accepted", bad)
		}
	}
}

func TestPathsAreEscaped(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if want := "/v1/effects/price%2F1%3Fx"; r.URL.EscapedPath() != want || r.URL.RawQuery != "" {
			t.Errorf("path = %s ?%s, want %s", r.URL.EscapedPath(), r.URL.RawQuery, want)
		}
		fmt.Fprint(w, `{}`)
	})
	if _, err := c.Effect(t.Context(), "price/1?x"); err != nil {
		t.Fatal(err)
	}
}

func event(seq int64, kind, status string) string {
	b, _ := json.Marshal(Event{RunID: "r", Seq: seq, Kind: kind, Status: status})
	return fmt.Sprintf("id: %d\nevent: %s\ndata: %s\n\n", seq, kind, b)
}

func TestWatchResumesWithoutGapsAndEndsWithTheRun(t *testing.T) {
	t.Parallel()
	var from []string
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		from = append(from, r.Header.Get("Last-Event-ID"))
		w.Header().Set("Content-Type", "text/event-stream")
		switch len(from) {
		case 1:
			fmt.Fprint(w, "retry: 1000\n\n: beat\n\n"+event(1, "run_started", "running")+event(2, "model_answered", "waiting")+"id: 3\ndata: {\"seq\"")
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		default: // one event again, which must not be yielded twice
			fmt.Fprint(w, event(2, "model_answered", "waiting")+event(3, "tool_completed", "running")+event(4, "run_completed", "completed")+"event: end\ndata: {}\n\n")
		}
	})
	var seqs []int64
	for e, err := range c.Watch(t.Context(), "r", 0) {
		if err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, e.Seq)
	}
	if diff := cmp.Diff([]int64{1, 2, 3, 4}, seqs); diff != "" {
		t.Errorf("seqs (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"", "2", "2"}, from); diff != "" {
		t.Errorf("Last-Event-ID (-want +got)\n%s", diff)
	}
}

func TestWatchSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, event(5, "run_started", "running")+event(7, "run_started", "running"))
	})
	var last error
	for _, err := range c.Watch(t.Context(), "r", 4) {
		last = err
	}
	if last == nil || !strings.Contains(last.Error(), "events 6 to 6") {
		t.Errorf("error = %v, want the gap named", last)
	}
}

func TestWatchOfAnUnknownRunEnds(t *testing.T) {
	t.Parallel()
	c, n := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"code":"not_found","detail":"no such run"}`)
	})
	var last error
	for _, err := range c.Watch(t.Context(), "r", 0) {
		last = err
	}
	if StatusOf(last) != http.StatusNotFound || n.Load() != 1 {
		t.Errorf("error = %v after %d requests, want one 404", last, n.Load())
	}
}

func TestEventsStopWithTheContext(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "id: e-1\nevent: resync\ndata: {}\n\nid: e-2\ndata: line 1\ndata: line 2\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var got []StreamEvent
	for e, err := range c.Events(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, e); len(got) == 2 {
			cancel()
		}
	}
	want := []StreamEvent{
		{ID: "e-1", Event: "resync", Data: json.RawMessage("{}")},
		{ID: "e-2", Data: json.RawMessage("line 1\nline 2")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got)\n%s", diff)
	}
}

func TestRunsFilters(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		want := "agent=a&cost=0.10&cursor=c&from=2d&label=customer%3A42&label=region%3Aeu&limit=5&parent=p&source=stripe&status=waiting&status=failed&text=shop+07&to=1h&trigger=webhook"
		if r.URL.RawQuery != want {
			t.Errorf("query = %s, want %s", r.URL.RawQuery, want)
		}
		fmt.Fprint(w, `{"items":[{"run_id":"r1","status":"waiting"}],"next_cursor":"n"}`)
	})
	page, err := c.Runs(t.Context(), RunFilter{Agent: "a", Status: []string{"waiting", "failed"}, Parent: "p", Trigger: "webhook", Source: "stripe", From: "2d", To: "1h", Cost: "0.10", Text: "shop 07",
		Labels: map[string]string{"region": "eu", "customer": "42"}}, PageRequest{Limit: 5, Cursor: "c"})
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Items) != 1 || page.Items[0].RunID != events.RunID("r1") || page.NextCursor != "n" {
		t.Errorf("page = %+v", page)
	}
	c, _ = serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "program=nightly" {
			t.Errorf("query = %s, want program=nightly", r.URL.RawQuery)
		}
		fmt.Fprint(w, `{"items":[]}`)
	})
	if _, err := c.Runs(t.Context(), RunFilter{Program: "nightly"}, PageRequest{}); err != nil {
		t.Fatal(err)
	}
}
