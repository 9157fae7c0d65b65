package model_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/runner/model"
)

// Whatever a server says in a model's name is an answer that the journal can hold, or an
// error: never a call without arguments that are JSON, and never usage below zero.
func FuzzAnswer(f *testing.F) {
	providers := []string{spec.ProviderAnthropic, spec.ProviderOpenAIChat, spec.ProviderOpenAIResponses}
	files, err := filepath.Glob("testdata/stream/*.sse")
	if err != nil || len(files) == 0 {
		f.Fatal("no streams", err)
	}
	for _, file := range files {
		f.Add(uint8(0), "text/event-stream", uint16(http.StatusOK), streamFile(f, filepath.Base(file)))
	}
	for i := range providers {
		f.Add(uint8(i), "application/json", uint16(http.StatusOK), []byte(`{"id":"x","choices":[{"message":{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"look","arguments":"{\"id\":1}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`))
		f.Add(uint8(i), "text/event-stream", uint16(http.StatusOK), []byte("data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"1\",\"function\":{\"name\":\"look\",\"arguments\":\"{}\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n"))
		f.Add(uint8(i), "text/event-stream", uint16(http.StatusOK), []byte("event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"status\":\"completed\",\"output\":[{\"type\":\"function_call\",\"call_id\":\"1\",\"name\":\"look\",\"arguments\":\"{}\"}],\"usage\":{\"input_tokens\":1,\"output_tokens\":2}}}\n\n"))
		f.Add(uint8(i), "application/json", uint16(http.StatusTooManyRequests), []byte(`{"error":{"type":"rate_limit_error","message":"slower"}}`))
	}
	type said struct {
		contentType string
		status      int
		body        []byte
	}
	var next atomic.Pointer[said]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s := next.Load()
		w.Header().Set("Content-Type", s.contentType)
		w.WriteHeader(s.status)
		_, _ = w.Write(s.body)
	}))
	f.Cleanup(server.Close)
	all := adapter().(model.Providers)
	f.Fuzz(func(t *testing.T, which uint8, contentType string, status uint16, body []byte) {
		next.Store(&said{contentType: contentType, status: 200 + int(status)%400, body: body})
		a, err := all.Answer(t.Context(), ask(t, providers[int(which)%len(providers)], server.URL))
		if err != nil {
			return
		}
		if events.Check([]byte(a.Raw)) != nil {
			t.Errorf("what is stored is no JSON: %q", a.Raw)
		}
		for _, c := range a.Calls {
			if events.Check(c.Args) != nil {
				t.Errorf("the arguments of %q are no JSON: %q", c.Tool, c.Args)
			}
		}
		if u := a.Usage; u.InputTokens < 0 || u.OutputTokens < 0 || u.CacheReadTokens < 0 || u.CacheWriteTokens < 0 {
			t.Errorf("usage below zero: %+v", u)
		}
	})
}
