package model_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/scriptmodel"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/runner"
)

var openAIs = []string{spec.ProviderOpenAIChat, spec.ProviderOpenAIResponses}

func ask(t *testing.T, provider, url string, entries ...runner.Entry) runner.Request {
	t.Helper()
	r := request(t, url+"/v1", entries...)
	m := *r.Model
	m.Provider = provider
	r.Model = &m
	return r
}

func TestOpenAI_HistoryIsReplayedByteForByte(t *testing.T) {
	t.Parallel()
	for _, provider := range openAIs {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			m := scriptmodel.New(scriptmodel.Config{Script: func(r scriptmodel.Request) (scriptmodel.Answer, error) {
				if r.Turn() == 0 {
					return scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Thinking("let me see <é>"), scriptmodel.Text("one <moment>"),
						scriptmodel.Call("look", json.RawMessage(`{"id": 12345678901234567890}`)), scriptmodel.Call("look", json.RawMessage(`{"id":1.10}`))}}, nil
				}
				return scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Text(r.Results()[0].Text + r.Results()[1].Text)}}, nil
			}})
			server := httptest.NewServer(m)
			defer server.Close()
			first, err := adapter().Answer(t.Context(), ask(t, provider, server.URL))
			if err != nil {
				t.Fatal(err)
			}
			if len(first.Calls) != 2 || string(first.Calls[0].Args) != `{"id": 12345678901234567890}` || first.StopReason != "tool_use" || first.Text != "one <moment>" || first.RequestID == "" {
				t.Errorf("answer %+v", first)
			}
			if first.Bound != (provider == spec.ProviderOpenAIResponses) {
				t.Errorf("bound %v", first.Bound)
			}
			second, err := adapter().Answer(t.Context(), ask(t, provider, server.URL, runner.Entry{Assistant: first.Raw},
				runner.Entry{Results: []runner.Result{{ProviderID: first.Calls[0].ProviderID, Text: "found <it>"}, {ProviderID: first.Calls[1].ProviderID, Text: "!"}}}))
			if err != nil {
				t.Fatal(err)
			}
			if second.Text != "found <it>!" {
				t.Errorf("the model read %q", second.Text)
			}
			// What was stored stands in the request as it was stored.
			for _, part := range []string{`"{\"id\": 12345678901234567890}"`, `let me see <é>`} {
				if sent := string(m.Exchanges()[1].Request.Raw); !strings.Contains(sent, part) {
					t.Errorf("the request %s does not hold %s", sent, part)
				}
			}
			if strings.Contains(first.Raw, "be exact") {
				t.Error("the stored answer repeats the instructions")
			}
			if v := m.Violations(); len(v) != 0 {
				t.Errorf("the history was not accepted: %+v", v)
			}
		})
	}
}

// plainly answers without streams what the server would stream.
func plainly(t *testing.T, m http.Handler) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body strings.Builder
		b := make([]byte, 1<<20)
		for {
			n, err := r.Body.Read(b)
			body.Write(b[:n])
			if err != nil {
				break
			}
		}
		text := strings.Replace(body.String(), `,"stream":true`, "", 1)
		text = strings.Replace(text, `,"stream_options":{"include_usage":true}`, "", 1)
		again := httptest.NewRequest(r.Method, r.URL.Path, strings.NewReader(text))
		again.Header = r.Header
		m.ServeHTTP(w, again)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestOpenAI_TheStreamEqualsThePlainAnswer(t *testing.T) {
	t.Parallel()
	for _, provider := range openAIs {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			m := scriptmodel.New(scriptmodel.Config{
				Key: func(scriptmodel.Request) string { return "k" },
				Script: func(scriptmodel.Request) (scriptmodel.Answer, error) {
					return scriptmodel.Answer{Usage: scriptmodel.Usage{InputTokens: 5, OutputTokens: 9, CacheReadInputTokens: 3, ReasoningTokens: 4}, Parts: []scriptmodel.Part{
						scriptmodel.Thinking(strings.Repeat("hm, 🚀 <ä> ", 20)), scriptmodel.Text(strings.Repeat("größer & 🚀\n", 20)),
						scriptmodel.Call("look", json.RawMessage(`{"id":12345678901234567890,"z":1.10,"a":"🚀<>\u00e9"}`)), scriptmodel.Call("look", json.RawMessage(`{}`)),
					}}, nil
				},
				Fault: func(scriptmodel.Request, int) scriptmodel.Fault { return scriptmodel.Fault{Chunk: 1} },
			})
			streamed := httptest.NewServer(m)
			defer streamed.Close()
			want, err := adapter().Answer(t.Context(), ask(t, provider, plainly(t, m)))
			if err != nil {
				t.Fatal(err)
			}
			shown := map[string]string{}
			r := ask(t, provider, streamed.URL)
			r.Show = func(p runner.Piece) { shown[p.Kind+p.Tool] += p.Text }
			got, err := adapter().Answer(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			wantShown := map[string]string{events.DeltaText: want.Text, events.DeltaThinking: strings.Repeat("hm, 🚀 <ä> ", 20),
				events.DeltaToolCall + "look": string(want.Calls[0].Args) + "{}"}
			if diff := cmp.Diff(wantShown, shown); diff != "" {
				t.Errorf("shown (-want +got):\n%s", diff)
			}
			if !sameMeaning(t, want.Raw, got.Raw) {
				t.Errorf("stored\n%s\nwant\n%s", got.Raw, want.Raw)
			}
			got.Raw, got.Duration, got.RequestID, want.Raw, want.Duration, want.RequestID = "", 0, "", "", 0, ""
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-plain +streamed):\n%s", diff)
			}
			if want := (events.Usage{InputTokens: 8, CacheReadTokens: 3, OutputTokens: 9, ReasoningTokens: 4}); got.Usage != want {
				t.Errorf("usage %+v, want %+v", got.Usage, want)
			}
		})
	}
}

// sameMeaning compares what is replayed of two answers, every digit of it.
func sameMeaning(t *testing.T, a, b string) bool {
	t.Helper()
	var parts [2]string
	for i, raw := range []string{a, b} {
		var body struct {
			Output  json.RawMessage `json:"output"`
			Choices []struct {
				Message map[string]json.RawMessage `json:"message"`
			} `json:"choices"`
		}
		if err := json.Unmarshal([]byte(raw), &body); err != nil {
			t.Fatal(err)
		}
		if body.Output != nil {
			parts[i] = string(body.Output)
			continue
		}
		message, err := events.Canonical(mustMarshal(t, body.Choices[0].Message))
		if err != nil {
			t.Fatal(err)
		}
		parts[i] = string(message)
	}
	return parts[0] == parts[1]
}

func mustMarshal(t *testing.T, v any) []byte {
	t.Helper()
	b, err := events.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestOpenAI_EveryCutIsARetry ends one stream after each of its bytes. What is
// left is a failure that may be tried again, or the whole answer when only its
// usage is missing.
func TestOpenAI_EveryCutIsARetry(t *testing.T) {
	t.Parallel()
	for _, provider := range openAIs {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			m := scriptmodel.New(scriptmodel.Config{Key: func(scriptmodel.Request) string { return "k" }, Script: func(scriptmodel.Request) (scriptmodel.Answer, error) {
				return scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Thinking("hm"), scriptmodel.Text("größer"), scriptmodel.Call("look", json.RawMessage(`{"id":1}`))}}, nil
			}})
			whole := httptest.NewServer(m)
			defer whole.Close()
			r := ask(t, provider, whole.URL)
			want, err := adapter().Answer(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			rec := httptest.NewRecorder()
			again := httptest.NewRequest(http.MethodPost, m.Exchanges()[0].Path, strings.NewReader(string(m.Exchanges()[0].Request.Raw)))
			again.Header.Set("Authorization", "Bearer x")
			m.ServeHTTP(rec, again)
			sse := rec.Body.Bytes()
			cut := 0
			url := serving(t, "text/event-stream", func() []byte { return sse[:cut] })
			r, a := ask(t, provider, url), adapter()
			answered := 0
			for cut = range sse {
				if cut%3 != 0 && cut < len(sse)-40 && !strings.HasSuffix(string(sse[:cut]), "\n\n") { // every end of an event
					continue
				}
				got, err := a.Answer(t.Context(), r)
				if e, ok := errors.AsType[*runner.ModelError](err); ok && e.Retry && got.Raw == "" {
					continue
				}
				answered++
				if err != nil || got.Text != want.Text || len(got.Calls) != 1 || string(got.Calls[0].Args) != `{"id":1}` || got.StopReason != "tool_use" {
					t.Fatalf("cut after %d of %d bytes: answer %q, error %v", cut, len(sse), got.Raw, err)
				}
			}
			if provider == spec.ProviderOpenAIResponses && answered > 2 {
				t.Errorf("%d cuts of the one event that counts gave an answer", answered)
			}
		})
	}
}

func TestOpenAI_Failures(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status   int
		header   string
		body     string
		wantCode string
		wantWait time.Duration
		final    bool
	}{
		"a rate limit names its wait":        {status: 429, header: "20", body: `{"error":{"message":"slow","type":"requests","code":"rate_limit_exceeded"}}`, wantCode: "rate_limit_exceeded", wantWait: 20 * time.Second},
		"a quota that is used up stays":      {status: 429, body: `{"error":{"message":"pay","type":"insufficient_quota","code":"insufficient_quota"}}`, wantCode: "insufficient_quota", final: true},
		"a wrong key is for a person":        {status: 401, body: `{"error":{"message":"Incorrect API key provided: key-TEST","code":"invalid_api_key"}}`, wantCode: "invalid_api_key", final: true},
		"a page from a proxy comes back":     {status: 502, body: `<html>bad gateway</html>`, wantCode: "status_502"},
		"a busy server comes back":           {status: 503, header: "7", body: ``, wantCode: "status_503", wantWait: 7 * time.Second},
		"a window that is full":              {status: 400, body: `{"error":{"message":"This model's maximum context length is 10 tokens","code":"context_length_exceeded"}}`, wantCode: "context_window", final: true},
		"a window that is full, on vLLM":     {status: 400, body: `{"object":"error","message":"This model's maximum context length is 10 tokens. However, you requested 12","type":"BadRequestError","code":400}`, wantCode: "context_window", final: true},
		"a request that is wrong":            {status: 400, body: `{"error":{"message":"no","type":"invalid_request_error","code":null}}`, wantCode: "invalid_request_error", final: true},
		"a model that is not there":          {status: 404, body: `{"error":"model 'x' not found"}`, wantCode: "status_404", final: true},
		"an error whose name is hostile":     {status: 500, body: `{"error":{"type":"a b\n","code":"<script>"}}`, wantCode: "status_500"},
		"an error inside a stream":           {status: 200, body: "data: {\"error\":{\"type\":\"server_error\",\"message\":\"key-TEST\"}}\n\n", wantCode: "server_error"},
		"an error inside a stream, nameless": {status: 200, body: "data: {\"error\":{\"message\":\"key-TEST\"}}\n\n", wantCode: "error_event"},
	} {
		for _, provider := range openAIs {
			tc := tc
			if tc.status == 200 && provider == spec.ProviderOpenAIResponses {
				tc.body = strings.Replace(strings.Replace(tc.body, `{"error":{"type":"server_error"`, `{"type":"error","code":"server_error","x":{"y":0`, 1), `{"error":{`, `{"type":"error","x":{`, 1)
			}
			t.Run(name+" "+provider, func(t *testing.T) {
				t.Parallel()
				n := 0
				s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					n++
					w.Header().Set("Content-Type", "text/event-stream")
					if tc.header != "" {
						w.Header().Set("Retry-After", tc.header)
					}
					w.WriteHeader(tc.status)
					_, _ = w.Write([]byte(tc.body))
				}))
				defer s.Close()
				_, err := adapter().Answer(t.Context(), ask(t, provider, s.URL))
				e, ok := errors.AsType[*runner.ModelError](err)
				if !ok || e.Code != tc.wantCode || e.Retry == tc.final || e.RetryAfter != tc.wantWait {
					t.Errorf("%#v, want %s, wait %s, retry %v", err, tc.wantCode, tc.wantWait, !tc.final)
				}
				if n != 1 || strings.Contains(err.Error(), "key-TEST") {
					t.Errorf("%d requests, want 1: %v", n, err)
				}
			})
		}
	}
}

// TestChat_CompatibleServers: what other servers do differently.
func TestChat_CompatibleServers(t *testing.T) {
	t.Parallel()
	chunk := func(delta, finish string) string {
		return `data: {"id":"1","model":"m","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]}` + "\n\n"
	}
	type calls = []runner.ModelCall
	for name, tc := range map[string]struct {
		sse      string
		want     calls
		wantText string
		wantSent string // of the answer, in the next request
	}{
		"role and name in each chunk": {
			sse: chunk(`{"role":"assistant","tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"look","arguments":"{\"id\""}}]}`, "null") +
				chunk(`{"role":"assistant","tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"look","arguments":":1}"}}]}`, `"tool_calls"`) + "data: [DONE]\n\n",
			want: calls{{ProviderID: "a", Tool: "look", Args: json.RawMessage(`{"id":1}`)}}, wantSent: `{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"look","arguments":"{\"id\":1}"}}]}`,
		},
		"every call has number 0, and ids twice": {
			sse:  chunk(`{"role":"assistant","tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"look","arguments":"{}"}},{"index":0,"id":"b","type":"function","function":{"name":"look","arguments":"{}"}}]}`, `"stop"`) + "data: [DONE]\n\n",
			want: calls{{ProviderID: "a", Tool: "look", Args: json.RawMessage(`{}`)}, {ProviderID: "b", Tool: "look", Args: json.RawMessage(`{}`)}},
		},
		"no ids and no arguments": {
			sse:      chunk(`{"role":"assistant","content":null,"tool_calls":[{"index":0,"type":"function","function":{"name":"look","arguments":""}},{"index":1,"type":"function","function":{"name":"look","arguments":""}}]}`, `"tool_calls"`),
			want:     calls{{Tool: "look", Args: json.RawMessage(`{}`)}, {Tool: "look", Args: json.RawMessage(`{}`)}},
			wantSent: `{"role":"assistant","content":null,"tool_calls":[{"index":`,
		},
		"no end of the stream, an empty list of calls": {
			sse: chunk(`{"role":"assistant","content":"hi","tool_calls":[]}`, `"stop"`), wantText: "hi", wantSent: `{"role":"assistant","content":"hi"}`,
		},
		"the member of a server's own": {
			sse: chunk(`{"role":"assistant","content":"h","x_note":{"n":1.10}}`, `null`) + chunk(`{"content":"i"}`, `"stop"`) + "data: [DONE]\n\n", wantText: "hi", wantSent: `{"role":"assistant","content":"hi","x_note":{"n":1.10}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := adapter().Answer(t.Context(), ask(t, spec.ProviderOpenAIChat, serving(t, "text/event-stream", func() []byte { return []byte(tc.sse) })))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.Calls); diff != "" || got.Text != tc.wantText {
				t.Errorf("text %q, calls (-want +got):\n%s", got.Text, diff)
			}
			if !got.Usage.Estimated || !json.Valid([]byte(got.Raw)) {
				t.Errorf("usage %+v, raw %s", got.Usage, got.Raw)
			}
			var sent string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var body struct {
					Messages []json.RawMessage `json:"messages"`
				}
				if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body.Messages) < 3 {
					t.Errorf("%v, %d messages", err, len(body.Messages))
				} else {
					sent = string(body.Messages[2])
				}
				ids := map[string]int{}
				for _, raw := range body.Messages[2:] {
					var m struct {
						Role      string `json:"role"`
						ID        string `json:"tool_call_id"`
						ToolCalls []struct {
							ID string `json:"id"`
						} `json:"tool_calls"`
					}
					_ = json.Unmarshal(raw, &m)
					for _, c := range m.ToolCalls {
						ids[c.ID]++
					}
					if m.Role == "tool" {
						ids[m.ID]--
					}
				}
				for id, n := range ids {
					if id == "" || n != 0 {
						t.Errorf("calls and results do not pair: %v", ids)
					}
				}
				w.WriteHeader(http.StatusBadRequest)
			}))
			defer server.Close()
			var results []runner.Result
			for _, c := range got.Calls {
				results = append(results, runner.Result{ProviderID: c.ProviderID, Text: "ok"})
			}
			_, _ = adapter().Answer(t.Context(), ask(t, spec.ProviderOpenAIChat, server.URL, runner.Entry{Assistant: got.Raw}, runner.Entry{Results: results}))
			if len(tc.want) == 0 || tc.wantSent != "" && !strings.Contains(tc.wantSent, `"index":`) {
				if sent != tc.wantSent {
					t.Errorf("sent %s, want %s", sent, tc.wantSent)
				}
			}
		})
	}
}

// TestResponses_ItemsOfTheStreamCount: a server whose last event has no items,
// and a model that cannot encrypt what it never thinks.
func TestResponses_ItemsOfTheStreamCount(t *testing.T) {
	t.Parallel()
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]json.RawMessage
		_ = json.NewDecoder(r.Body).Decode(&body)
		asked = append(asked, string(body["include"]))
		if len(body["include"]) > 0 {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error":{"message":"Encrypted content is not supported with this model.","type":"invalid_request_error","code":null}}`))
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(`data: {"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","id":"f","call_id":"c","name":"look","arguments":"{\"id\": 1.10}"}}

data: {"type":"response.completed","response":{"id":"r","model":"m","status":"completed","output":[],"tools":[{"x":1}],"usage":{"input_tokens":5,"output_tokens":6}}}

`))
	}))
	defer s.Close()
	a, r := adapter(), ask(t, spec.ProviderOpenAIResponses, s.URL)
	for range 2 {
		got, err := a.Answer(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		want := `{"id":"r","model":"m","status":"completed","output":[{"type":"function_call","id":"f","call_id":"c","name":"look","arguments":"{\"id\": 1.10}"}],"usage":{"input_tokens":5,"output_tokens":6}}`
		if got.Raw != want || len(got.Calls) != 1 || got.StopReason != "tool_use" {
			t.Errorf("stored %s\nwant %s", got.Raw, want)
		}
	}
	if diff := cmp.Diff([]string{`["reasoning.encrypted_content"]`, "", ""}, asked); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
