package scriptmodel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/param"
	"github.com/google/go-cmp/cmp"
)

// priceScript thinks, asks for two pages, then speaks.
func priceScript(r Request) (Answer, error) {
	switch r.Turn() {
	case 0:
		return Answer{Parts: []Part{
			Thinking("Two pages <should> do & no more."),
			Text("I look at both pages."),
			Call("fetch_page", map[string]string{"url": "http://a.example/?x=1&y=2"}),
			Call("fetch_page", json.RawMessage(`{"url":"http://b.example/","n":12345678901234567890}`)),
		}, Usage: Usage{InputTokens: 400, OutputTokens: 60, CacheReadInputTokens: 11}}, nil
	case 1:
		var texts []string
		for _, res := range r.Results() {
			texts = append(texts, res.Tool+"="+res.Text)
		}
		return Answer{Parts: []Part{Text(strings.Join(texts, ";"))}}, nil
	}
	return Answer{}, errors.New("nobody should come here")
}

type bundle struct {
	server *Server
	client anthropic.Client
	url    string
}

func setup(t *testing.T, c Config) *bundle {
	t.Helper()
	if c.Script == nil {
		c.Script = priceScript
	}
	s := New(c)
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return &bundle{server: s, url: h.URL, client: anthropic.NewClient(
		option.WithoutEnvironmentDefaults(), option.WithBaseURL(h.URL), option.WithAPIKey("test"), option.WithMaxRetries(0),
	)}
}

var tools = []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{
	Name: "fetch_page", Description: anthropic.String("reads a page"),
	InputSchema: anthropic.ToolInputSchemaParam{Properties: map[string]any{"url": map[string]any{"type": "string"}}},
}}}

func params(messages ...anthropic.MessageParam) anthropic.MessageNewParams {
	return anthropic.MessageNewParams{
		Model: "scripted", MaxTokens: 512, Messages: messages, Tools: tools,
		System:   []anthropic.TextBlockParam{{Text: "You check prices."}},
		Metadata: anthropic.MetadataParam{UserID: anthropic.String("run-1")},
	}
}

func ask(text string) anthropic.MessageParam {
	return anthropic.NewUserMessage(anthropic.NewTextBlock(text))
}

// replay gives the answer back verbatim, as raw JSON.
func replay(t *testing.T, m *anthropic.Message) anthropic.MessageParam {
	t.Helper()
	var raw struct {
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal([]byte(m.RawJSON()), &raw); err != nil {
		t.Fatal(err)
	}
	return param.Override[anthropic.MessageParam](json.RawMessage(`{"role":"assistant","content":` + string(raw.Content) + `}`))
}

func results(m *anthropic.Message, texts ...string) anthropic.MessageParam {
	var blocks []anthropic.ContentBlockParamUnion
	for _, b := range m.Content {
		if b.Type == "tool_use" {
			blocks = append(blocks, anthropic.NewToolResultBlock(b.ID, texts[len(blocks)], false))
		}
	}
	return anthropic.NewUserMessage(blocks...)
}

func TestConversation(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	first, err := b.client.Messages.New(t.Context(), params(ask("check shop-01")))
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, block := range first.Content {
		kinds = append(kinds, block.Type)
	}
	if diff := cmp.Diff([]string{"thinking", "text", "tool_use", "tool_use"}, kinds); diff != "" {
		t.Errorf("blocks (-want +got)\n%s", diff)
	}
	if first.StopReason != "tool_use" || first.Usage.InputTokens != 400 || first.Usage.OutputTokens != 60 || first.Usage.CacheReadInputTokens != 11 {
		t.Errorf("stop reason %s, usage %s", first.StopReason, first.Usage.RawJSON())
	}
	if !strings.Contains(first.RawJSON(), "12345678901234567890") || !strings.Contains(first.RawJSON(), "x=1&y=2") {
		t.Errorf("input was rewritten: %s", first.RawJSON())
	}
	second, err := b.client.Messages.New(t.Context(), params(ask("check shop-01"), replay(t, first), results(first, "10 EUR", "11 EUR")))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := second.Content[0].Text, "fetch_page=10 EUR;fetch_page=11 EUR"; got != want || second.StopReason != "end_turn" {
		t.Errorf("text %q (%s), want %q (end_turn)", got, second.StopReason, want)
	}
	waitFor(t, func() bool { return b.server.Count("run-1").InFlight == 0 }) // the client may be ahead of the handler
	want := Count{Requests: 2, Answered: 2}
	if diff := cmp.Diff(want, b.server.Count("run-1")); diff != "" {
		t.Errorf("count (-want +got)\n%s", diff)
	}
	if v := b.server.Violations(); len(v) != 0 {
		t.Errorf("violations: %+v", v)
	}
	if e := b.server.Exchanges()[1]; e.Turn != 1 || e.Nth != 1 || e.InFlight() || e.Status != 200 {
		t.Errorf("second exchange: %+v", e)
	}
}

func TestSameRequestSameAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	one, err := b.client.Messages.New(t.Context(), params(ask("check shop-01")))
	if err != nil {
		t.Fatal(err)
	}
	two, err := b.client.Messages.New(t.Context(), params(ask("check shop-01")))
	if err != nil {
		t.Fatal(err)
	}
	if one.RawJSON() != two.RawJSON() {
		t.Errorf("a repeated request got another answer:\n%s\n%s", one.RawJSON(), two.RawJSON())
	}
	if e := b.server.Exchanges(); e[1].Nth != 2 || e[1].Turn != 0 {
		t.Errorf("second exchange: nth %d turn %d, want 2 and 0", e[1].Nth, e[1].Turn)
	}
}

func TestStreamEqualsPlainAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	plain, err := b.client.Messages.New(t.Context(), params(ask("check shop-01")))
	if err != nil {
		t.Fatal(err)
	}
	stream := b.client.Messages.NewStreaming(t.Context(), params(ask("check shop-01")))
	var got anthropic.Message
	for stream.Next() {
		if err := got.Accumulate(stream.Current()); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if len(got.Content) != len(plain.Content) {
		t.Fatalf("%d blocks, want %d", len(got.Content), len(plain.Content))
	}
	for i, want := range plain.Content {
		g := got.Content[i]
		if g.Type != want.Type || g.Text != want.Text || g.Thinking != want.Thinking || g.Signature != want.Signature ||
			g.ID != want.ID || g.Name != want.Name || string(g.Input) != string(want.Input) {
			t.Errorf("block %d: %+v, want %+v", i, g, want)
		}
	}
	if got.StopReason != plain.StopReason || got.Usage.OutputTokens != plain.Usage.OutputTokens || got.ID != plain.ID {
		t.Errorf("stop %s usage %d id %s", got.StopReason, got.Usage.OutputTokens, got.ID)
	}
	// What the client put together from the stream is a valid history.
	if _, err := b.client.Messages.New(t.Context(), params(ask("check shop-01"), got.ToParam(), results(&got, "a", "b"))); err != nil {
		t.Errorf("history from a stream: %v", err)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fault      Fault
		wantStatus int
		wantType   string
		wantRetry  string
	}{
		"rate limit with a wait": {Fault{Status: 429, RetryAfter: 7 * time.Second}, 429, "rate_limit_error", "7"},
		"overloaded":             {Fault{Status: 529}, 529, "overloaded_error", ""},
		"server error":           {Fault{Status: 500, Delay: time.Millisecond}, 500, "api_error", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, Config{Fault: func(_ Request, nth int) Fault {
				if nth == 1 {
					return tc.fault
				}
				return Fault{}
			}})
			_, err := b.client.Messages.New(t.Context(), params(ask("check")))
			e, ok := errors.AsType[*anthropic.Error](err)
			if !ok {
				t.Fatalf("error %v, want an API error", err)
			}
			if e.StatusCode != tc.wantStatus || string(e.Type()) != tc.wantType || e.Response.Header.Get("retry-after") != tc.wantRetry || e.RequestID == "" {
				t.Errorf("status %d type %s retry-after %q request id %q", e.StatusCode, e.Type(), e.Response.Header.Get("retry-after"), e.RequestID)
			}
			if _, err := b.client.Messages.New(t.Context(), params(ask("check"))); err != nil {
				t.Errorf("second request: %v", err)
			}
			// The client may have read an answer before its handler has ended.
			deadline := time.Now().Add(5 * time.Second)
			for got := b.server.Count(""); got.Requests != 2 || got.Answered != 1; got = b.server.Count("") {
				if time.Now().After(deadline) {
					t.Fatalf("count %+v, want 2 requests and 1 answer", got)
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{Fault: func(r Request, nth int) Fault {
		switch nth {
		case 1:
			return Fault{CutAfter: 4}
		case 2:
			return Fault{CutAfter: 4, ErrorEvent: true}
		}
		return Fault{}
	}})
	for _, name := range []string{"cut", "error event"} {
		stream := b.client.Messages.NewStreaming(t.Context(), params(ask("check")))
		n := 0
		for stream.Next() {
			n++
		}
		if stream.Err() == nil {
			t.Errorf("%s: a broken stream was read without an error after %d events", name, n)
		}
	}
	plain := setup(t, Config{Fault: func(Request, int) Fault { return Fault{CutAfter: 1} }})
	if _, err := plain.client.Messages.New(t.Context(), params(ask("check"))); err == nil {
		t.Error("a response that was cut in its middle was read without an error")
	}
	if c := b.server.Count(""); c.Answered != 0 || c.Requests != 2 {
		t.Errorf("count %+v, want 2 requests and no answer", c)
	}
}

func TestHooksAndCallerGone(t *testing.T) {
	t.Parallel()
	arrived := make(chan Exchange, 1)
	var s *Server
	b := setup(t, Config{
		OnArrival:    func(_ context.Context, e Exchange) { arrived <- e },
		BeforeAnswer: func(ctx context.Context, e Exchange) { <-ctx.Done() },
	})
	s = b.server
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := b.client.Messages.New(ctx, params(ask("check")))
		done <- err
	}()
	e := <-arrived
	if got := s.Count("run-1"); e.Key != "run-1" || got.InFlight != 1 || got.Answered != 0 {
		t.Errorf("key %q, count %+v while in flight", e.Key, got)
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("a cancelled request returned an answer")
	}
	waitFor(t, func() bool { return s.Count("run-1").InFlight == 0 })
	if got := s.Count("run-1"); got.Requests != 1 || got.Answered != 0 {
		t.Errorf("count %+v, want one request without an answer", got)
	}
}

func TestConcurrentConversationsAreApart(t *testing.T) {
	t.Parallel()
	var active, most atomic.Int32
	b := setup(t, Config{
		Key: func(r Request) string { return r.FirstText() },
		BeforeAnswer: func(ctx context.Context, _ Exchange) {
			n := active.Add(1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			time.Sleep(20 * time.Millisecond)
			active.Add(-1)
		},
	})
	done := make(chan error)
	for _, shop := range []string{"shop-01", "shop-02", "shop-03"} {
		go func() {
			_, err := b.client.Messages.New(t.Context(), params(ask(shop)))
			done <- err
		}()
	}
	for range 3 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if got := b.server.Count("shop-02"); got.Requests != 1 {
		t.Errorf("shop-02 has %d requests, want 1", got.Requests)
	}
	if most.Load() < 2 {
		t.Error("requests were answered one after the other")
	}
}

func TestDoors(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	tests := map[string]struct {
		method, path string
		header       http.Header
		want         int
	}{
		"no key":           {"POST", "/v1/messages", http.Header{"Anthropic-Version": {"2023-06-01"}}, 401},
		"no version":       {"POST", "/v1/messages", http.Header{"X-Api-Key": {"k"}}, 400},
		"GET":              {"GET", "/v1/messages", http.Header{"X-Api-Key": {"k"}}, 405},
		"another path":     {"POST", "/v1/complete", http.Header{"X-Api-Key": {"k"}}, 404},
		"body is not JSON": {"POST", "/v1/messages", http.Header{"X-Api-Key": {"k"}, "Anthropic-Version": {"2023-06-01"}}, 400},
	}
	for name, tc := range tests {
		req, err := http.NewRequestWithContext(t.Context(), tc.method, b.url+tc.path, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = tc.header
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var body struct {
			Type  string `json:"type"`
			Error struct{ Type, Message string }
		}
		if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		resp.Body.Close()
		if resp.StatusCode != tc.want || body.Type != "error" || body.Error.Message == "" || resp.Header.Get("request-id") == "" {
			t.Errorf("%s: status %d body %+v, want %d and an error", name, resp.StatusCode, body, tc.want)
		}
	}
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("condition did not become true within 5 s")
		}
	}
}

func post(t *testing.T, b *bundle, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", b.url+"/v1/messages", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("x-api-key", "k")
	req.Header.Set("anthropic-version", "2023-06-01")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var buf bytes.Buffer
	if _, err := buf.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, buf.String()
}
