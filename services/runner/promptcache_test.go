package runner_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/internal/scriptmodel"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/runner"
	"github.com/holdfast-run/holdfast/services/runner/model"
)

// promptCache keeps what a provider would of the requests that it sees. It counts
// bytes as tokens.
type promptCache struct {
	mu   sync.Mutex
	kept map[string]bool // beginnings of prompts
	seen []prompt
}

// prompt is a request in the order in which a provider reads it: tools, system
// prompt, and the blocks or items of the messages, each as it was sent.
type prompt struct {
	parts []string
	marks []int // parts behind which the cache is asked to keep
	key   string
}

const cacheMark = `,"cache_control":{"type":"ephemeral"}`

// lookBack is how many parts before a mark a provider looks for what it has.
const lookBack = 20

func promptOf(raw []byte) (p prompt) {
	var body struct {
		Tools        []json.RawMessage `json:"tools"`
		System       []json.RawMessage `json:"system"`
		Instructions json.RawMessage   `json:"instructions"`
		Messages     []json.RawMessage `json:"messages"`
		Input        []json.RawMessage `json:"input"`
		Key          string            `json:"prompt_cache_key"`
	}
	if err := json.Unmarshal(raw, &body); err != nil {
		panic(err)
	}
	add := func(where string, raw json.RawMessage) {
		part := string(raw)
		if cut := strings.ReplaceAll(part, cacheMark, ""); cut != part {
			part = cut
			p.marks = append(p.marks, len(p.parts))
		}
		p.parts = append(p.parts, where+part)
	}
	p.key = body.Key
	for _, t := range body.Tools {
		add("tool ", t)
	}
	for _, s := range append(body.System, body.Instructions) {
		if s != nil {
			add("system ", s)
		}
	}
	for _, m := range append(body.Messages, body.Input...) {
		var blocks struct {
			Role    string            `json:"role"`
			Content []json.RawMessage `json:"content"`
		}
		if json.Unmarshal(m, &blocks) != nil || blocks.Content == nil {
			add("", m)
			continue
		}
		for _, b := range blocks.Content {
			add(blocks.Role+" ", b)
		}
	}
	return p
}

func (p prompt) size(n int) (bytes int64) {
	for _, part := range p.parts[:n] {
		bytes += int64(len(part))
	}
	return bytes
}

// begins is how many parts two prompts have in common at their beginning.
func (p prompt) begins(q prompt) (n int) {
	for n < min(len(p.parts), len(q.parts)) && p.parts[n] == q.parts[n] {
		n++
	}
	return n
}

// usage is what the provider reports of a request: Anthropic keeps what is marked,
// OpenAI what conversations of one key have in common.
func (c *promptCache) usage(raw []byte) scriptmodel.Usage {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, read, written := promptOf(raw), 0, 0
	if c.kept == nil {
		c.kept = map[string]bool{}
	}
	switch {
	case bytes.Contains(raw, []byte(cacheMark)):
		for _, m := range p.marks {
			for n := m + 1; n > max(m+1-lookBack, 0) && n > read; n-- {
				if c.kept[strings.Join(p.parts[:n], "\n")] {
					read = n
				}
			}
		}
		for _, m := range p.marks {
			c.kept[strings.Join(p.parts[:m+1], "\n")] = true
			written = max(written, m+1)
		}
	default:
		for _, old := range c.seen {
			if old.key == p.key {
				read = max(read, p.begins(old))
			}
		}
	}
	c.seen = append(c.seen, p)
	u := scriptmodel.Usage{CacheReadInputTokens: p.size(read), OutputTokens: 7}
	u.CacheCreationInputTokens = max(p.size(written)-u.CacheReadInputTokens, 0)
	u.InputTokens = max(p.size(len(p.parts))-u.CacheReadInputTokens-u.CacheCreationInputTokens, 1)
	return u
}

// reads checks that request i goes on byte for byte from the one before it, and
// that the provider took all of that from its cache.
func (c *promptCache) reads(t *testing.T, i int, u events.Usage) {
	t.Helper()
	p, before := c.seen[i], c.seen[i-1]
	if n := p.begins(before); n != len(before.parts) {
		t.Errorf("request %d has %d of the %d parts of the one before it:\n%s\nwas\n%s", i, n, len(before.parts), p.parts[n], before.parts[n])
		return
	}
	if want := before.size(len(before.parts)); u.CacheReadTokens != want {
		t.Errorf("request %d read %d bytes from the cache, want all %d of the one before it", i, u.CacheReadTokens, want)
	}
}

// answersOf are the usages of a run's answers, in order.
func answersOf(t *testing.T, journal []runner.Fact) (out []events.ModelAnswered) {
	t.Helper()
	for _, f := range journal {
		if f.Kind == events.FactModelAnswered {
			var a events.ModelAnswered
			if err := json.Unmarshal(f.Data, &a); err != nil {
				t.Fatal(err)
			}
			out = append(out, a)
		}
	}
	return out
}

// Each request begins with all of the one before it, byte for byte, and the
// provider reads that from its cache, also behind an answer with more calls than it
// looks back; what it read and wrote is in the journal, and priced as such.
func TestPromptCache_TheConversationIsRead(t *testing.T) {
	onEachProvider(t, func(t *testing.T, provider string) {
		cache := &promptCache{}
		l := newLoop(t, provider, "hello", scripted(func(r scriptmodel.Request) scriptmodel.Answer {
			a := saying("done")
			switch r.Turn() {
			case 0:
				a.Parts = nil
				for i := range 30 {
					a.Parts = append(a.Parts, scriptmodel.Call("look", map[string]int{"id": i}))
				}
			case 1, 2:
				a = scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Text("more"), scriptmodel.Call("look", map[string]int{"id": 40 + r.Turn()})}}
			}
			a.Usage = cache.usage(r.Raw)
			return a
		})).run()
		l.ends(events.StatusCompleted, "")
		got := answersOf(t, l.journal)
		if len(got) != 4 || len(cache.seen) != 4 {
			t.Fatalf("%d answers of %d requests, want 4", len(got), len(cache.seen))
		}
		var cost int64
		for i, a := range got {
			if i > 0 {
				cache.reads(t, i, a.Usage)
			}
			p := l.plan.Model.Prices
			u := a.Usage
			fresh := u.InputTokens - u.CacheReadTokens - u.CacheWriteTokens
			// Prices are micro-dollars for a million tokens.
			want := (fresh*int64(p.Input) + u.CacheReadTokens*int64(*p.CachedRead) + u.CacheWriteTokens*int64(*p.CachedWrite) + u.OutputTokens*int64(p.Output) + 999_999) / 1_000_000
			if a.CostMicroUSD != want {
				t.Errorf("answer %d costs %d micro-dollars, want %d for %+v", i, a.CostMicroUSD, want, u)
			}
			cost += want
			if marks := len(cache.seen[i].marks); provider == spec.ProviderAnthropic && marks != min(i+2, 3) {
				t.Errorf("request %d has %d marks, want %d: the provider takes 4", i, marks, min(i+2, 3))
			}
		}
		if l.state.Cost != cost || cost == 0 {
			t.Errorf("the run cost %d, want %d", l.state.Cost, cost)
		}
		if wrote := l.state.Usage.CacheWriteTokens > 0; wrote != (provider == spec.ProviderAnthropic) {
			t.Errorf("usage %+v", l.state.Usage)
		}
	})
}

// A compaction asks with the very beginning that is in the cache, and changes
// afterwards only the first message and what the summary stands for: tools and
// system prompt are read on, and the request behind the next one reads all of it.
func TestPromptCache_CompactionChangesWhatItMust(t *testing.T) {
	onEachProvider(t, func(t *testing.T, provider string) {
		cache := &promptCache{}
		var summaries []int
		l := newLoop(t, provider, "hello", scriptmodel.Config{Script: func(r scriptmodel.Request) (scriptmodel.Answer, error) {
			a := scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Call("look", map[string]int{"id": len(cache.seen)})}}
			switch {
			case asksForSummary(r):
				summaries = append(summaries, len(cache.seen))
				a = saying("the gist")
			case len(summaries) > 0 && len(cache.seen) > summaries[0]+1:
				a = saying("done")
			}
			a.Usage = cache.usage(r.Raw)
			return a, nil
		}})
		cached := *l.plan.Agent
		cached.Context = &spec.AgentContext{CompactAt: 3000, Keep: new(int64(1))}
		l.plan.Agent = &cached
		l.tool = func(c *runner.Call) events.ToolCompleted {
			return events.ToolCompleted{CallID: c.CallID, RunID: l.state.RunID, Tool: c.Tool, Status: events.CallSucceeded, Result: mustJSON(t, strings.Repeat("x", 700))}
		}
		l.run().ends(events.StatusCompleted, "")
		if len(summaries) == 0 || summaries[0] < 2 || len(cache.seen) < summaries[0]+3 {
			t.Fatalf("summaries at the requests %v of %d", summaries, len(cache.seen))
		}
		s := summaries[0]
		asked, before, after := cache.seen[s], cache.seen[s-1], cache.seen[s+1]
		if n := asked.begins(before); n < len(asked.parts)-1 {
			t.Errorf("the request for the summary has %d parts of the one before it, and then %.300s", n, asked.parts[n])
		}
		if !slices.Equal(after.head(), before.head()) || len(after.head()) == 0 {
			t.Errorf("tools and system prompt changed: %v, were %v", after.head(), before.head())
		}
		if len(summaries) != 1 {
			t.Fatalf("summaries at the requests %v, want one", summaries)
		}
		cache.reads(t, s+2, answersOf(t, l.journal)[s+1].Usage) // the summary is no answer
	})
}

// head is what stands before the messages.
func (p prompt) head() (out []string) {
	for _, part := range p.parts {
		if strings.HasPrefix(part, "tool ") || strings.HasPrefix(part, "system ") || strings.HasPrefix(part, `{"role":"system"`) {
			out = append(out, part)
		}
	}
	return out
}

// With promptCache: none nothing asks a provider to keep anything.
func TestPromptCache_CanBeSwitchedOff(t *testing.T) {
	onEachProvider(t, func(t *testing.T, provider string) {
		var bodies []string
		l := newLoop(t, provider, "hello", scripted(func(r scriptmodel.Request) scriptmodel.Answer {
			if bodies = append(bodies, string(r.Raw)); r.Turn() == 0 {
				return scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Call("look", map[string]int{"id": 1})}}
			}
			return saying("done")
		}))
		off := *l.plan.Model
		off.PromptCache = spec.PromptCacheNone
		l.plan.Model = &off
		l.run().ends(events.StatusCompleted, "")
		for _, b := range bodies {
			if strings.Contains(b, "cache") || !strings.Contains(b, "be exact") {
				t.Errorf("sent: %.500s", b)
			}
		}
	})
}

// A process dies while a run of each provider waits for a tool, and another, that
// remembers nothing, goes on: its request begins byte for byte with what the dead one
// sent, and what the cache served is in the rows and in the run.
func TestPromptCache_AnotherProcessSendsTheSameBytes(t *testing.T) {
	r := newRig(t)
	var mu sync.Mutex
	caches := map[string]*promptCache{}
	server := scriptmodel.New(scriptmodel.Config{Script: func(q scriptmodel.Request) (scriptmodel.Answer, error) {
		mu.Lock()
		defer mu.Unlock()
		if caches[q.Model] == nil {
			caches[q.Model] = &promptCache{}
		}
		a := saying("done")
		if q.Turn() == 0 {
			a = scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Thinking("<&> é"), scriptmodel.Text("I look"), scriptmodel.Call("look", json.RawMessage(`{"n": 1.0}`))}}
		}
		a.Usage = caches[q.Model].usage(q.Raw)
		return a, nil
	}})
	web := httptest.NewServer(server)
	t.Cleanup(web.Close)
	for _, p := range allProviders {
		base := web.URL
		if p != spec.ProviderAnthropic {
			base += "/v1"
		}
		r.defs.apply(t, fmt.Sprintf(`
apiVersion: holdfast/v1
kind: Model
metadata: {name: m-%[1]s}
spec: {provider: %[1]s, model: %[1]s, apiKey: {env: KEY}, baseURL: %[2]q, prices: {input: "3", cachedRead: "0.3", cachedWrite: "3.75", output: 15}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: a-%[1]s}
spec: {model: m-%[1]s, instructions: "work <&> é", tools: [look]}
`, p, base))
	}
	adapters := func() runner.Model {
		return model.All(model.Env{LookupEnv: func(string) (string, bool) { return "key", true }, ReadFile: os.ReadFile,
			Egress: egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})})
	}
	first := r.worker(adapters())
	calls := r.tools("")
	ids := map[string]events.RunID{}
	for _, p := range allProviders {
		ids[p] = r.start(events.KindAgent, "a-"+p, `"hello"`)
	}
	r.eventually("three calls are out", func() bool { return len(calls.all()) == 3 }, func() string { return r.journalText(ids[allProviders[0]]) })
	first.stop()
	r.worker(adapters())
	for _, c := range calls.all() {
		r.finish(c, events.CallSucceeded, `{"at":"<b>&é","n":12345678901234567890}`)
	}
	for _, p := range allProviders {
		id := ids[p]
		r.reaches(id, events.StatusCompleted)
		var all events.Usage
		for i, row := range r.journal(id) {
			if row.Kind != events.FactModelAnswered {
				continue
			}
			var a events.ModelAnswered
			if err := json.Unmarshal(row.Data, &a); err != nil {
				t.Fatal(err)
			}
			if i > 1 {
				caches[p].reads(t, 1, a.Usage)
			}
			all.InputTokens, all.OutputTokens = all.InputTokens+a.Usage.InputTokens, all.OutputTokens+a.Usage.OutputTokens
			all.CacheReadTokens, all.CacheWriteTokens = all.CacheReadTokens+a.Usage.CacheReadTokens, all.CacheWriteTokens+a.Usage.CacheWriteTokens
		}
		var tokens, read, written, cost int64
		if err := r.sql.QueryRow(t.Context(), `SELECT tokens, cache_read_tokens, cache_write_tokens, cost_micro_usd FROM runner.v_runs JOIN runner.v_control USING (run_id, namespace) WHERE run_id = $1`, string(id)).Scan(&tokens, &read, &written, &cost); err != nil {
			t.Fatal(err)
		}
		if read != all.CacheReadTokens || written != all.CacheWriteTokens || tokens != all.Total() || read == 0 || cost == 0 {
			t.Errorf("%s: the run has %d tokens, %d read from and %d written to the cache for $%d; its rows say %+v", p, tokens, read, written, cost, all)
		}
	}
	for _, v := range server.Violations() {
		t.Errorf("%+v", v)
	}
}
