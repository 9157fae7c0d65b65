package model_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/internal/scriptmodel"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/runner"
	"github.com/holdfast-run/holdfast/services/runner/model"
)

const run = events.RunID("01a22811-0f6d-7d1a-83a5-87278d08f24f")

// request is one call of a run against server.
func request(t *testing.T, url string, entries ...runner.Entry) runner.Request {
	t.Helper()
	docs, err := spec.Parse("t.yaml", []byte(`
apiVersion: holdfast/v1
kind: Model
metadata: {name: m}
spec: {provider: anthropic, model: claude-test, apiKey: {env: TEST_MODEL_KEY}, baseURL: "`+url+`", timeout: 2s}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: look}
spec: {description: looks, effect: read, input: {type: object, properties: {id: {type: integer}}, required: [id]}, http: {method: GET, url: "http://h/l"}}
`))
	if err != nil {
		t.Fatal(err)
	}
	return runner.Request{RunID: run, Model: docs[0].Model, System: "be exact", Tools: []runner.NamedTool{{Name: "look", Tool: docs[1].Tool}},
		Entries: append([]runner.Entry{{User: "hello <b> & é"}}, entries...), MaxTokens: 100}
}

func adapter() runner.Model {
	return model.All(model.Env{LookupEnv: func(name string) (string, bool) { return "key-" + name, name == "TEST_MODEL_KEY" }, ReadFile: os.ReadFile, Egress: onLoopback()})
}

func TestAnthropic_HistoryIsReplayedByteForByte(t *testing.T) {
	t.Parallel()
	m := scriptmodel.New(scriptmodel.Config{Script: func(r scriptmodel.Request) (scriptmodel.Answer, error) {
		if r.Turn() == 0 {
			return scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Thinking("let me see"), scriptmodel.Text("one <moment>"),
				scriptmodel.Call("look", json.RawMessage(`{"id": 12345678901234567890}`))}, Usage: scriptmodel.Usage{InputTokens: 11, OutputTokens: 7, CacheReadInputTokens: 5}}, nil
		}
		return scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Text(r.Results()[0].Text)}}, nil
	}})
	server := httptest.NewServer(m)
	defer server.Close()

	first, err := adapter().Answer(t.Context(), request(t, server.URL))
	if err != nil {
		t.Fatal(err)
	}
	if len(first.Calls) != 1 || !strings.Contains(string(first.Calls[0].Args), "12345678901234567890") {
		t.Errorf("calls %+v: digits were lost", first.Calls)
	}
	if first.StopReason != "tool_use" || first.Text != "one <moment>" {
		t.Errorf("stop %q, text %q", first.StopReason, first.Text)
	}
	if want := (events.Usage{InputTokens: 16, CacheReadTokens: 5, OutputTokens: 7}); first.Usage != want {
		t.Errorf("usage %+v, want %+v", first.Usage, want)
	}
	if first.RequestID == "" {
		t.Error("the provider's request id is not kept")
	}
	second, err := adapter().Answer(t.Context(), request(t, server.URL, runner.Entry{Assistant: first.Raw},
		runner.Entry{Results: []runner.Result{{ProviderID: first.Calls[0].ProviderID, Text: "found <it>"}}}))
	if err != nil {
		t.Fatal(err)
	}
	if second.Text != "found <it>" {
		t.Errorf("the model read %q", second.Text)
	}
	if v := m.Violations(); len(v) != 0 {
		t.Errorf("the history was not accepted: %+v", v)
	}
	if c := m.Count(string(run)); c.Requests != 2 {
		t.Errorf("%d requests, want 2: the SDK's retries must be off", c.Requests)
	}
}

func TestAnthropic_Failures(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fault      scriptmodel.Fault
		wantCode   string
		wantRetry  bool
		wantAtWait time.Duration
	}{
		"overloaded comes back":              {fault: scriptmodel.Fault{Status: 529}, wantCode: "overloaded_error", wantRetry: true},
		"a rate limit names its wait":        {fault: scriptmodel.Fault{Status: 429, RetryAfter: 20 * time.Second}, wantCode: "rate_limit_error", wantRetry: true, wantAtWait: 20 * time.Second},
		"a server's error comes back":        {fault: scriptmodel.Fault{Status: 500}, wantCode: "api_error", wantRetry: true},
		"a wrong key is for a person":        {fault: scriptmodel.Fault{Status: 401}, wantCode: "authentication_error"},
		"a bad request is for good":          {fault: scriptmodel.Fault{Status: 400}, wantCode: "invalid_request_error"},
		"a cut answer comes back":            {fault: scriptmodel.Fault{CutAfter: 1}, wantCode: "connection", wantRetry: true},
		"an answer that is late, comes back": {fault: scriptmodel.Fault{Delay: 10 * time.Second}, wantCode: "timeout", wantRetry: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := scriptmodel.New(scriptmodel.Config{
				Script: func(scriptmodel.Request) (scriptmodel.Answer, error) {
					return scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Text("hi")}}, nil
				},
				Fault: func(scriptmodel.Request, int) scriptmodel.Fault { return tc.fault },
			})
			server := httptest.NewServer(m)
			defer server.Close()
			_, err := adapter().Answer(t.Context(), request(t, server.URL))
			e, ok := errors.AsType[*runner.ModelError](err)
			if !ok {
				t.Fatalf("error %v is not a ModelError", err)
			}
			if e.Code != tc.wantCode || e.Retry != tc.wantRetry || e.RetryAfter != tc.wantAtWait {
				t.Errorf("code %q retry %v wait %s, want %q %v %s", e.Code, e.Retry, e.RetryAfter, tc.wantCode, tc.wantRetry, tc.wantAtWait)
			}
			if strings.Contains(err.Error(), "key-TEST") {
				t.Error("the key is in the error")
			}
			if n := len(m.Exchanges()); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		})
	}
}

func TestAnthropic_MissingKeySaysWhich(t *testing.T) {
	t.Parallel()
	a := model.All(model.Env{LookupEnv: func(string) (string, bool) { return "", false }, ReadFile: os.ReadFile, Egress: onLoopback()})
	_, err := a.Answer(context.Background(), request(t, "http://127.0.0.1:1"))
	e, ok := errors.AsType[*runner.ModelError](err)
	if !ok || e.Code != "auth" || e.Retry || !strings.Contains(err.Error(), "TEST_MODEL_KEY") {
		t.Errorf("%v, want an auth error that names the variable", err)
	}
}

// onLoopback reaches the test's own servers.
func onLoopback() *egress.Client {
	return egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
}
