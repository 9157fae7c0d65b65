package runner_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner/model"
)

const streamDocuments = `
apiVersion: holdfast/v1
kind: Model
metadata: {name: slow}
spec: {provider: anthropic, model: scripted, apiKey: {env: KEY}, baseURL: %q}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: writer}
spec: {model: slow, instructions: write}
`

// An answer is streamed for much longer than a message is kept for somebody who says
// nothing, with two runners that could take it over: one owner, one request.
// HOLDFAST_LAB_LONG=1 is 40 times as long, as 20 minutes are to half a minute.
func TestCaseC02_AStreamOfManyLeases(t *testing.T) {
	long := 3 * bus.AckWait
	if os.Getenv("HOLDFAST_LAB_LONG") != "" {
		long = 40 * bus.AckWait
	}
	var requests atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		requests.Add(1)
		w.Header().Set("Content-Type", "text/event-stream")
		say := func(kind, rest string) {
			fmt.Fprintf(w, "event: %s\ndata: {\"type\":%q%s}\n\n", kind, kind, rest)
			w.(http.Flusher).Flush()
		}
		say("message_start", `,"message":{"id":"msg_1","type":"message","role":"assistant","model":"scripted","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":1}}`)
		say("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`)
		for began := time.Now(); time.Since(began) < long; {
			select {
			case <-q.Context().Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
			say("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":"word "}`)
		}
		say("content_block_stop", `,"index":0`)
		say("message_delta", `,"delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":50}`)
		say("message_stop", "")
	}))
	t.Cleanup(web.Close)
	r := newRig(t)
	r.defs.apply(t, fmt.Sprintf(streamDocuments, web.URL))
	m := model.All(model.Env{LookupEnv: func(string) (string, bool) { return "key", true }, ReadFile: os.ReadFile,
		Egress: egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})})
	r.worker(m)
	r.worker(m)
	id := r.start(events.KindAgent, "writer", `{}`)
	for began := time.Now(); r.status(id) != events.StatusCompleted; time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > long+20*time.Second {
			t.Fatalf("the run is %s\n%s", r.status(id), r.journalText(id))
		}
		if n := requests.Load(); n > 1 {
			t.Fatalf("%d requests", n)
		}
	}
	if n := r.count(`SELECT claim_epoch + attempts FROM runner.v_runs`); requests.Load() != 1 || n != 1 {
		t.Errorf("%d requests; epoch and attempts sum to %d, want 1", requests.Load(), n)
	}
	r.consistent(id)
}
