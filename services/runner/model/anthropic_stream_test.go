package model_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/scriptmodel"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
	"github.com/holdfast-run/holdfast/services/runner/model"
)

// serving answers every request with body.
func serving(t *testing.T, contentType string, body func() []byte) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(body())
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func streamFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata/stream", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestStream_StoredAnswers compares what is stored of a stream with the message
// that it is made of, byte for byte: testdata/stream/<name>.sse and .json.
func TestStream_StoredAnswers(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]runner.Answer{
		"whole": {
			Model: "claude-test", StopReason: "tool_use", Text: "größer 🚀 🚀\n\x00",
			Calls: []runner.ModelCall{
				{ProviderID: "toolu_1", Tool: "look", Args: json.RawMessage(`{"z": 1.10, "id": 12345678901234567890, "a": "\u00e9 🚀 \""}`)},
				{ProviderID: "toolu_2", Tool: "look", Args: json.RawMessage(`{}`)},
			},
			Bound: true,
			Usage: events.Usage{InputTokens: 20, CacheReadTokens: 5, CacheWriteTokens: 3, OutputTokens: 89},
		},
		"cut_arguments": {
			Model: "m", StopReason: "max_tokens", Calls: []runner.ModelCall{{ProviderID: "toolu_1", Tool: "look", Args: json.RawMessage(`{}`)}},
			Usage: events.Usage{InputTokens: 9, OutputTokens: 100},
		},
		"no_usage":                {Model: "m", StopReason: "end_turn", Text: "from a gateway", Usage: events.Usage{InputTokens: 552, OutputTokens: 51, Estimated: true}},
		"usage_at_the_start_only": {Model: "m", StopReason: "end_turn", Text: "hi", Usage: events.Usage{InputTokens: 9, OutputTokens: 58, Estimated: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want.Raw = strings.TrimSuffix(string(streamFile(t, name+".json")), "\n")
			sse := streamFile(t, name+".sse")
			for _, form := range []struct {
				name string
				body []byte
			}{{"LF", sse}, {"CRLF", bytes.ReplaceAll(sse, []byte("\n"), []byte("\r\n"))}} {
				got, err := adapter().Answer(t.Context(), request(t, serving(t, "text/event-stream; charset=utf-8", func() []byte { return form.body })))
				if err != nil {
					t.Fatalf("%s: %v", form.name, err)
				}
				got.Duration = 0
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", form.name, diff)
				}
				if !json.Valid([]byte(got.Raw)) {
					t.Errorf("%s: the stored answer is not JSON", form.name)
				}
			}
		})
	}
}

// TestStream_EveryCutIsARetry ends one stream after each of its bytes: none of
// the prefixes is an answer, and each failure may be tried again.
func TestStream_EveryCutIsARetry(t *testing.T) {
	t.Parallel()
	whole := streamFile(t, "whole.sse")
	var mu sync.Mutex
	n := 0
	url := serving(t, "text/event-stream", func() []byte {
		mu.Lock()
		defer mu.Unlock()
		return whole[:n]
	})
	r, a := request(t, url), adapter()
	for cut := range whole {
		mu.Lock()
		n = cut
		mu.Unlock()
		got, err := a.Answer(t.Context(), r)
		e, ok := errors.AsType[*runner.ModelError](err)
		if !ok || !e.Retry || got.Raw != "" {
			t.Fatalf("cut after %d of %d bytes (%q): answer %q, error %v; want a failure that may be tried again",
				cut, len(whole), whole[max(0, cut-30):cut], got.Raw, err)
		}
	}
	mu.Lock()
	n = len(whole)
	mu.Unlock()
	if _, err := a.Answer(t.Context(), r); err != nil {
		t.Errorf("whole: %v", err)
	}
}

// TestStream_EqualsThePlainAnswer has a stream in writes of one byte, which end
// inside characters, and the same answer in one piece.
func TestStream_EqualsThePlainAnswer(t *testing.T) {
	t.Parallel()
	m := scriptmodel.New(scriptmodel.Config{
		Key: func(scriptmodel.Request) string { return "k" },
		Script: func(scriptmodel.Request) (scriptmodel.Answer, error) {
			return scriptmodel.Answer{Parts: []scriptmodel.Part{
				scriptmodel.Thinking(strings.Repeat("hm, 🚀 <ä> ", 20)), scriptmodel.Text(strings.Repeat("größer & 🚀\n", 20)),
				scriptmodel.Call("look", json.RawMessage(`{"id":12345678901234567890,"z":1.10,"a":"🚀<>"}`)), scriptmodel.Call("look", json.RawMessage(`{}`)),
			}}, nil
		},
		Fault: func(scriptmodel.Request, int) scriptmodel.Fault { return scriptmodel.Fault{Chunk: 1} },
	})
	// A gateway that knows no streams: it takes the wish for one out of the request.
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		_, _ = body.ReadFrom(r.Body)
		text := strings.Replace(body.String(), `,"stream":true`, "", 1)
		if text == body.String() {
			t.Error("the request does not ask for a stream")
		}
		again := httptest.NewRequest(r.Method, r.URL.Path, strings.NewReader(text))
		again.Header = r.Header
		m.ServeHTTP(w, again)
	}))
	defer plain.Close()
	streamed := httptest.NewServer(m)
	defer streamed.Close()

	fromPlain, err := adapter().Answer(t.Context(), request(t, plain.URL))
	if err != nil {
		t.Fatal(err)
	}
	var shown [3]strings.Builder
	r := request(t, streamed.URL)
	r.Show = func(p runner.Piece) {
		switch p.Kind {
		case events.DeltaText:
			shown[0].WriteString(p.Text)
		case events.DeltaThinking:
			shown[1].WriteString(p.Text)
		case events.DeltaToolCall:
			shown[2].WriteString(fmt.Sprintf("%d %s %s\n", p.Index, p.Tool, p.Text))
		}
	}
	fromStream, err := adapter().Answer(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	fromPlain.Duration, fromStream.Duration, fromPlain.RequestID, fromStream.RequestID = 0, 0, "", ""
	// The two requests differ in one word, and the script counts their bytes.
	fromPlain.Usage.InputTokens, fromStream.Usage.InputTokens = 0, 0
	cutUsage := func(s string) string { return s[:strings.Index(s, `"usage"`)] }
	fromPlain.Raw, fromStream.Raw = cutUsage(fromPlain.Raw), cutUsage(fromStream.Raw)
	if diff := cmp.Diff(fromPlain, fromStream); diff != "" {
		t.Errorf("(-plain +streamed):\n%s", diff)
	}
	if shown[0].String() != fromStream.Text || shown[1].String() != strings.Repeat("hm, 🚀 <ä> ", 20) {
		t.Errorf("shown: %q and %q", shown[0].String(), shown[1].String())
	}
	if got := shown[2].String(); !strings.HasPrefix(got, "2 look \n2 look {\"id\":12345678901234567890") || !strings.Contains(got, "3 look {}\n") {
		t.Errorf("shown calls: %q", got)
	}
}

func TestStream_Failures(t *testing.T) {
	t.Parallel()
	whole := string(streamFile(t, "whole.sse"))
	start := whole[:strings.Index(whole, "event: content_block_start")]
	inside := func(event string) string { return start + event + "\n\n" }
	problem := func(kind string) string {
		return inside("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"" + kind + "\",\"message\":\"sk-secret\"}}")
	}
	without := func(name string) string {
		from := strings.LastIndex(whole, "event: "+name+"\n")
		return whole[:from] + whole[from+strings.Index(whole[from:], "\n\n")+2:]
	}
	for name, tc := range map[string]struct {
		body      string
		wantCode  string
		wantFinal bool
	}{
		"overloaded":                    {body: problem("overloaded_error"), wantCode: "overloaded_error"},
		"an error that stays":           {body: problem("invalid_request_error"), wantCode: "invalid_request_error", wantFinal: true},
		"an error with a hostile name":  {body: problem("A b\\n" + strings.Repeat("x", 300)), wantCode: "error_event"},
		"an error nobody can read":      {body: inside("event: error\ndata: oops"), wantCode: "error_event"},
		"no stop":                       {body: without("message_stop"), wantCode: "connection"},
		"no stop reason":                {body: without("message_delta"), wantCode: "unreadable_answer"},
		"a block is not closed":         {body: without("content_block_stop"), wantCode: "unreadable_answer"},
		"a block is missing":            {body: without("content_block_start"), wantCode: "unreadable_answer"},
		"a delta before the start":      {body: whole[strings.Index(whole, "event: content_block_start"):], wantCode: "unreadable_answer"},
		"two starts":                    {body: start + start, wantCode: "unreadable_answer"},
		"a second begin of a block":     {body: strings.Replace(whole, `"index":1,`, `"index":0,`, 1), wantCode: "unreadable_answer"},
		"an event that is no object":    {body: inside("event: message_stop\ndata: []"), wantCode: "unreadable_answer"},
		"an event that is no JSON":      {body: inside("event: message_stop\ndata: {\"type\""), wantCode: "unreadable_answer"},
		"text for what is no text":      {body: strings.Replace(whole, `"type":"hologram_delta","caption"`, `"type":"hologram_delta","depth"`, 1), wantCode: "unreadable_answer"},
		"nothing":                       {body: "", wantCode: "connection"},
		"something else than a stream":  {body: "<html>busy</html>", wantCode: "connection"},
		"an answer larger than allowed": {body: strings.Replace(whole, "half a ", strings.Repeat("x", 33<<20), 1), wantCode: "unreadable_answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := adapter().Answer(t.Context(), request(t, serving(t, "text/event-stream", func() []byte { return []byte(tc.body) })))
			e, ok := errors.AsType[*runner.ModelError](err)
			if !ok || e.Code != tc.wantCode || e.Retry == tc.wantFinal || got.Raw != "" {
				t.Errorf("answer %.80q, error %v; want code %s, retry %v", got.Raw, err, tc.wantCode, !tc.wantFinal)
			}
			if err != nil && strings.Contains(err.Error(), "sk-secret") {
				t.Errorf("the provider's message is in the error: %v", err)
			}
		})
	}
}

// TestStream_Stalls: a stream that says nothing is given up, long before the
// call's own time is over, and one that only pings is not.
func TestStream_Stalls(t *testing.T) {
	t.Parallel()
	m := scriptmodel.New(scriptmodel.Config{
		Script: func(scriptmodel.Request) (scriptmodel.Answer, error) {
			return scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Text("hi")}}, nil
		},
		Fault: func(scriptmodel.Request, int) scriptmodel.Fault { return scriptmodel.Fault{StallAfter: 4} },
	})
	server := httptest.NewServer(m)
	defer server.Close()
	const stall = 300 * time.Millisecond
	a := model.All(model.Env{LookupEnv: func(string) (string, bool) { return "k", true }, ReadFile: os.ReadFile, Egress: onLoopback(), Stall: stall})
	begun := time.Now()
	_, err := a.Answer(t.Context(), request(t, server.URL))
	if e, ok := errors.AsType[*runner.ModelError](err); !ok || e.Code != "stalled" || !e.Retry {
		t.Errorf("error %v, want stalled and a retry", err)
	}
	if took := time.Since(begun); took < stall || took > 1500*time.Millisecond {
		t.Errorf("given up after %s", took)
	}

	whole := streamFile(t, "whole.sse")
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 8 {
			_, _ = w.Write([]byte("event: ping\ndata: {\"type\": \"ping\"}\n\n"))
			_ = http.NewResponseController(w).Flush()
			time.Sleep(stall / 4)
		}
		_, _ = w.Write(whole)
	}))
	defer slow.Close()
	if _, err := a.Answer(t.Context(), request(t, slow.URL)); err != nil {
		t.Errorf("a stream that pings for longer than a stall: %v", err)
	}
}
