package demo

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/param"

	"github.com/holdfast-run/holdfast/internal/scriptmodel"
)

// loop plays an agent: it asks the scripted model through the real SDK and
// answers its calls with answer, until the model stops.
func loop(t *testing.T, prompt string, tools []string, answer func(tool, args string) (string, bool)) (calls []string, last string, tokens int64) {
	t.Helper()
	model := scriptmodel.New(scriptmodel.Config{Script: nightScript, Key: conversationKey})
	h := httptest.NewServer(model)
	defer h.Close()
	client := anthropic.NewClient(option.WithoutEnvironmentDefaults(), option.WithBaseURL(h.URL), option.WithAPIKey("k"), option.WithMaxRetries(0))
	p := anthropic.MessageNewParams{
		Model: "scripted", MaxTokens: 1024,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(prompt))},
	}
	for _, name := range tools {
		p.Tools = append(p.Tools, anthropic.ToolUnionParam{OfTool: &anthropic.ToolParam{
			Name: name, InputSchema: anthropic.ToolInputSchemaParam{Properties: map[string]any{}},
		}})
	}
	for range 10 {
		m, err := client.Messages.New(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		tokens += m.Usage.InputTokens + m.Usage.OutputTokens
		var raw struct{ Content json.RawMessage }
		if err := json.Unmarshal([]byte(m.RawJSON()), &raw); err != nil {
			t.Fatal(err)
		}
		p.Messages = append(p.Messages, param.Override[anthropic.MessageParam](json.RawMessage(`{"role":"assistant","content":`+string(raw.Content)+`}`)))
		var results []anthropic.ContentBlockParamUnion
		for _, b := range m.Content {
			switch b.Type {
			case "text":
				last = b.Text
			case "tool_use":
				calls = append(calls, b.Name+" "+string(b.Input))
				text, bad := answer(b.Name, string(b.Input))
				results = append(results, anthropic.NewToolResultBlock(b.ID, text, bad))
			}
		}
		if len(results) == 0 {
			if v := model.Violations(); len(v) > 0 {
				t.Errorf("violations: %+v", v)
			}
			return calls, last, tokens
		}
		p.Messages = append(p.Messages, anthropic.NewUserMessage(results...))
	}
	t.Fatal("the conversation did not end")
	return nil, "", 0
}

var shopTools = []string{"fetch_page", "propose_price"}

func prompt(shop string) string {
	return fmt.Sprintf("Check %s for product trail-shoe at http://127.0.0.1:1/%s/products/trail-shoe for the night 2026-11-29.", shop, shop)
}

// readShop is the text that a reader sees on a page of the shop.
func readShop(t *testing.T, w *web, path string) string {
	t.Helper()
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, httptest.NewRequest("GET", path, nil))
	if rec.Code != 200 {
		t.Fatalf("GET %s: %d", path, rec.Code)
	}
	return regexp.MustCompile(`<[^>]*>`).ReplaceAllString(rec.Body.String(), " ")
}

func TestScript_OneShop(t *testing.T) {
	t.Parallel()
	w := &web{}
	calls, last, tokens := loop(t, prompt("shop-17"), shopTools, func(tool, args string) (string, bool) {
		if tool == "fetch_page" {
			return readShop(t, w, "/shop-17/products/trail-shoe"), false
		}
		return `{"accepted":true}`, false
	})
	want := []string{
		`fetch_page {"url":"http://127.0.0.1:1/shop-17/products/trail-shoe"}`,
		`propose_price {"night":"2026-11-29","shop":"shop-17","product":"trail-shoe","price":27.19,"reason":"shop-17 asks 26.19"}`,
	}
	if fmt.Sprint(calls) != fmt.Sprint(want) || !strings.Contains(last, "was changed") {
		t.Errorf("calls %v\nlast %q", calls, last)
	}
	if w.count("shop-17") != 1 {
		t.Errorf("%d fetches, want 1", w.count("shop-17"))
	}
	// The reader that ships adds a third: titles, links and white space.
	if all := 29 * tokens; all < 300_000 || all > 700_000 {
		t.Errorf("a shop costs %d tokens, all of them %d: want the night's cap of 400000 passed once", tokens, all)
	}
}

func TestScript_ProblemsAreSaid(t *testing.T) {
	t.Parallel()
	calls, last, _ := loop(t, prompt("shop-05"), shopTools, func(string, string) (string, bool) { return "not found", true })
	if len(calls) != 1 || !strings.Contains(last, "could not be read") {
		t.Errorf("calls %v, last %q: want no proposal without a price", calls, last)
	}
	w := &web{}
	_, last, _ = loop(t, prompt("shop-05"), shopTools, func(tool, _ string) (string, bool) {
		if tool == "fetch_page" {
			return readShop(t, w, "/shop-05/products/trail-shoe"), false
		}
		return "rejected: too low", true
	})
	if !strings.Contains(last, "too low") {
		t.Errorf("last %q: want the reason of the rejection", last)
	}
}

func TestScript_ManyPages(t *testing.T) {
	t.Parallel()
	w := &web{}
	n := 0
	calls, last, tokens := loop(t, prompt(manyPagesShop), shopTools, func(tool, args string) (string, bool) {
		if n++; n > 12 {
			return "budget: 12 tool calls are used up", true
		}
		var in struct{ URL string }
		if err := json.Unmarshal([]byte(args), &in); err != nil {
			t.Error(err)
		}
		return readShop(t, w, strings.TrimPrefix(in.URL, "http://127.0.0.1:1")), false
	})
	pages := map[string]bool{}
	for _, c := range calls {
		pages[c] = true
	}
	if len(calls) != manyPages || len(pages) != manyPages || w.count(manyPagesShop) != 12 || !strings.Contains(last, "read 12 pages, 2 were over") {
		t.Errorf("%d calls of %d pages, %d fetched, last %q", len(calls), len(pages), w.count(manyPagesShop), last)
	}
	if tokens > 55_000 {
		t.Errorf("%d tokens, want well under the run's own 60000", tokens)
	}
}

func TestScript_Summary(t *testing.T) {
	t.Parallel()
	calls, last, _ := loop(t, "Night 2026-11-29. Results in the order of the competitors: [\"shop-01: ok\",\"shop-02: ok\"]", nil, nil)
	if len(calls) != 0 || !strings.Contains(last, "2 shops") {
		t.Errorf("calls %v, last %q", calls, last)
	}
}

func TestScript_UnknownPrompt(t *testing.T) {
	t.Parallel()
	_, err := nightScript(scriptmodel.Request{
		Tools:    []scriptmodel.Tool{{Name: "fetch_page"}},
		Messages: []scriptmodel.Message{{Role: "user", Blocks: []scriptmodel.Block{{Type: "text", Text: "Hello"}}}},
	})
	if err == nil {
		t.Error("a prompt that names nothing got an answer")
	}
}

func TestThinkTime(t *testing.T) {
	t.Parallel()
	for n := 1; n <= shopCount; n++ {
		for turn := range 4 {
			if d := thinkTime(shopName(n), turn); d < 150e6 || d > 400e6 || d != thinkTime(shopName(n), turn) {
				t.Errorf("%s turn %d: %v", shopName(n), turn, d)
			}
		}
	}
}
