package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const waited = "0198c2aa-0000-7000-8000-000000000001"

// row is an event of the run waited as a frame.
func row(seq int, status string) string {
	return fmt.Sprintf("id: %d\ndata: {\"run_id\":%q,\"seq\":%d,\"kind\":\"x\",\"status\":%q}\n\n", seq, waited, seq, status)
}

func piece(n int, text string) string {
	return fmt.Sprintf("event: delta\ndata: {\"run_id\":%q,\"epoch\":1,\"turn\":1,\"n\":%d,\"kind\":\"text\",\"text\":%q}\n\n", waited, n, text)
}

func TestStartAndWait_OneRequestWhenItEndsInTime(t *testing.T) {
	t.Parallel()
	c, n := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.URL.RawQuery; got != "wait=8" {
			t.Errorf("query %q, want wait=8", got)
		}
		fmt.Fprintf(w, `{"run_id":%q,"status":"failed","status_url":"/v1/runs/x","error":{"code":"budget","message":"used up"}}`, waited)
	})
	got, err := c.StartAndWait(t.Context(), StartRequest{Agent: "triage"}, 7200*time.Millisecond)
	if err != nil || !got.Ended() || got.Status != "failed" || got.Error == nil || got.Error.Code != "budget" || got.RunID != waited {
		t.Errorf("%+v, %v", got, err)
	}
	if n.Load() != 1 {
		t.Errorf("%d requests, want 1", n.Load())
	}
}

// TestStartAndWait_LongerThanTheServerWaits goes on by the run's events, over
// connections that break.
func TestStartAndWait_LongerThanTheServerWaits(t *testing.T) {
	t.Parallel()
	var asked []string
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusAccepted)
			fmt.Fprintf(w, `{"run_id":%q,"status":"queued","status_url":"/v1/runs/%s"}`, waited, waited)
		case strings.HasSuffix(r.URL.Path, "/events"):
			last := r.Header.Get("Last-Event-ID")
			asked = append(asked, last+"?"+r.URL.RawQuery)
			switch last {
			case "":
				io.WriteString(w, row(1, "running"))
			case "1":
				io.WriteString(w, row(2, "completed")+"event: end\ndata: {}\n\n")
			}
		default:
			fmt.Fprintf(w, `{"run_id":%q,"status":"completed","output":{"n":12345678901234567890}}`, waited)
		}
	})
	got, err := c.StartAndWait(t.Context(), StartRequest{Agent: "triage"}, 0)
	if err != nil || got.Status != "completed" || string(got.Output) != `{"n":12345678901234567890}` || got.StatusURL == "" {
		t.Errorf("%+v, %v", got, err)
	}
	if diff := cmp.Diff([]string{"?live=false", "1?live=false"}, asked); diff != "" {
		t.Errorf("streams (-want +got):\n%s", diff)
	}
}

func TestWait_IsOverBeforeTheRun(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/events") {
			io.WriteString(w, row(1, "running"))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		fmt.Fprintf(w, `{"run_id":%q,"status":"waiting"}`, waited)
	})
	got, err := c.Wait(t.Context(), waited, 100*time.Millisecond)
	if err != nil || got.Ended() || got.Status != "waiting" || got.RunID != waited {
		t.Errorf("%+v, %v: a wait that is over is no error", got, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if got, err = c.Wait(ctx, waited, 0); !errors.Is(err, context.DeadlineExceeded) || got.RunID != waited {
		t.Errorf("%+v, %v: the caller gave up", got, err)
	}
}

// TestWatchLive_PiecesMoveNoPlace cuts a live stream: what resumes it is the
// last row, a piece comes once, and a type of event that is not known is passed over.
func TestWatchLive_PiecesMoveNoPlace(t *testing.T) {
	t.Parallel()
	var connections atomic.Int64
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.URL.RawQuery; got != "live=true" {
			t.Errorf("query %q", got)
		}
		switch connections.Add(1) {
		case 1:
			io.WriteString(w, row(1, "running")+piece(0, "a")+piece(1, "b"))
		case 2:
			if got := r.Header.Get("Last-Event-ID"); got != "1" {
				t.Errorf("resumed after %q, want 1", got)
			}
			io.WriteString(w, piece(1, "b")+piece(2, "c")+"event: later\ndata: {\"kind\":\"x\",\"seq\":2}\n\n"+row(2, "completed")+"event: end\ndata: {}\n\n")
		}
	})
	var got []string
	for f, err := range c.WatchLive(t.Context(), waited, 0) {
		switch {
		case err != nil:
			t.Fatal(err)
		case f.Delta != nil:
			got = append(got, f.Delta.Text)
		default:
			got = append(got, fmt.Sprint(f.Event.Seq))
		}
	}
	if diff := cmp.Diff([]string{"1", "a", "b", "c", "2"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
