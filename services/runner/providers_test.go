package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/internal/scriptmodel"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/runner"
	"github.com/holdfast-run/holdfast/services/runner/model"
)

var allProviders = []string{spec.ProviderAnthropic, spec.ProviderOpenAIChat, spec.ProviderOpenAIResponses}

// loop is the runner's loop without its store and bus: the real decisions, the
// real adapters and a scripted server with its strict validator, in memory.
type loop struct {
	t      *testing.T
	server *scriptmodel.Server
	model  runner.Model
	plan   *runner.Plan
	start  events.RunStarted

	state   *runner.State
	journal []runner.Fact
	commits []int // how many rows there were after each; those of one come together
	now     time.Time
	asks    int
	// tool gives the outcome of a call; nil means success.
	tool func(c *runner.Call) events.ToolCompleted
	// dice, when set, kills, repeats and reorders.
	dice *rand.Rand
	// meanwhile, when set, is what happens while the model answers; answered looks at
	// each request whose answer was recorded.
	meanwhile func()
	answered  func(runner.Request)
}

const loopDocuments = `
apiVersion: holdfast/v1
kind: Model
metadata: {name: main}
spec: {provider: %[1]s, model: scripted, apiKey: {env: KEY}, baseURL: %[2]q, timeout: 5s, fallback: [spare], prices: {input: "3", cachedRead: "0.3", cachedWrite: "3.75", output: 15}}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: spare}
spec: {provider: %[1]s, model: spare, apiKey: {env: KEY}, baseURL: %[2]q, timeout: 5s}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: look}
spec:
  description: looks
  effect: read
  input: {type: object, properties: {id: {type: integer}, note: {type: string}}, required: [id]}
  http: {method: GET, url: "http://127.0.0.1/look"}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: clerk}
spec: {model: main, instructions: be exact, tools: [look], budget: {modelCalls: 200}}
`

func newLoop(t *testing.T, provider, input string, c scriptmodel.Config) *loop {
	t.Helper()
	c.Aside = asksForSummary
	server := scriptmodel.New(c)
	web := httptest.NewServer(server)
	t.Cleanup(web.Close)
	base := web.URL
	if provider != spec.ProviderAnthropic {
		base += "/v1"
	}
	docs, err := spec.Parse("loop.yaml", fmt.Appendf(nil, loopDocuments, provider, base))
	if err != nil {
		t.Fatal(err)
	}
	ref := func(i int) events.Ref {
		return events.Ref{Kind: docs[i].Kind, Name: docs[i].Name, Digest: docs[i].Digest}
	}
	main, spare, look, agent := ref(0), ref(1), ref(2), ref(3)
	l := &loop{
		t: t, server: server, now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC),
		model: model.All(model.Env{LookupEnv: func(string) (string, bool) { return "key", true }, ReadFile: os.ReadFile,
			Egress: egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})}),
		plan: &runner.Plan{Agent: docs[3].Agent, Model: docs[0].Model, ModelName: "main", Tools: map[string]*spec.Tool{"look": docs[2].Tool},
			Fallbacks: []runner.NamedModel{{Name: "spare", Model: docs[1].Model}}},
		start: events.RunStarted{Ref: agent, Model: &main, Fallbacks: []events.Ref{spare}, Tools: []events.Ref{look},
			Input: mustJSON(t, input), Trigger: events.Trigger{Kind: "api"}, AcceptedAt: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)},
	}
	l.state = runner.NewState(events.NewRunID(), "default")
	l.decide(runner.Input{Cause: "start", Start: &runner.Start{Body: l.start}})
	return l
}

func mustJSON(t *testing.T, v any) json.RawMessage {
	t.Helper()
	raw, err := events.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func (l *loop) took(d runner.Decision, err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
	l.journal, l.state = append(l.journal, d.Facts...), d.State
	if d.Plan != nil {
		l.plan = d.Plan
	}
	l.commits = append(l.commits, len(l.journal))
}

func (l *loop) decide(in runner.Input) {
	l.t.Helper()
	times := 1
	if l.dice != nil && l.dice.IntN(4) == 0 {
		times = 2 // a message that comes twice
	}
	for range times {
		l.took(runner.Decide(l.state, l.plan, in, "w", l.now))
	}
}

// folded is the state that another process has: from the journal alone.
func (l *loop) folded() *runner.State {
	l.t.Helper()
	st := runner.NewState(l.state.RunID, l.state.Namespace)
	for _, f := range l.journal {
		if err := st.Apply(f); err != nil {
			l.t.Fatal(err)
		}
	}
	return st
}

// step makes the owed model call.
func (l *loop) step(ctx context.Context) {
	l.t.Helper()
	r, err := runner.NextRequest(l.state, l.plan, 1)
	if err != nil {
		l.t.Fatal(err)
	}
	if afresh, err := runner.NextRequest(l.folded(), l.plan, 1); err != nil || !cmp.Equal(afresh.Entries, r.Entries) {
		l.t.Fatalf("a process that has only the journal sends something else, %v:\n%s", err, cmp.Diff(afresh.Entries, r.Entries))
	}
	by := runner.Claimed{Cause: fmt.Sprintf("step-%d", l.asks), Worker: "w", Epoch: 1}
	l.asks++
	answer, err := l.model.Answer(ctx, r)
	answer.Messages = r.Messages
	if l.meanwhile != nil {
		l.meanwhile()
	}
	if l.dice != nil && l.dice.IntN(5) == 0 {
		return // the worker died with the answer in its hand
	}
	failed := err != nil
	d, _, err := runner.DecideOutcome(l.state, l.plan, r, answer, err, by, l.now)
	l.took(d, err)
	if l.answered != nil && !failed && !r.Summary {
		l.answered(r)
	}
}

// run goes on until the run ends, or waits for a person.
func (l *loop) run() *loop {
	l.t.Helper()
	for range 400 {
		if l.state.End != "" || l.state.Attention != nil || l.state.Pause != nil {
			return l
		}
		var open []*runner.Call
		for i := range l.state.Turns {
			for _, c := range l.state.CallsInOrder(i) {
				if c.State == "sent" {
					open = append(open, c)
				}
			}
		}
		switch {
		case l.state.Retry != nil:
			l.now = l.state.Retry.At
			l.decide(runner.Input{Cause: "timer:" + l.state.Retry.Timer, Timer: &events.TimerFired{RunID: l.state.RunID, Timer: l.state.Retry.Timer, Due: l.now}})
		case len(open) > 0:
			if l.dice != nil {
				l.dice.Shuffle(len(open), func(i, k int) { open[i], open[k] = open[k], open[i] })
			}
			for _, c := range open {
				done := events.ToolCompleted{CallID: c.CallID, RunID: l.state.RunID, Tool: c.Tool, Status: events.CallSucceeded, Result: json.RawMessage(`"found"`)}
				if l.tool != nil {
					done = l.tool(c)
				}
				l.decide(runner.Input{Cause: "tool:" + string(c.CallID), Type: events.TypeToolCompleted, Tool: &done, Original: done})
			}
		case l.state.OwesModelCall():
			l.step(l.t.Context())
		default:
			l.t.Fatalf("the run stands still:\n%s", l.text())
		}
	}
	l.t.Fatalf("the run never ends:\n%s", l.text())
	return l
}

func (l *loop) text() string {
	out := ""
	for _, f := range l.journal[max(0, len(l.journal)-8):] {
		out += fmt.Sprintf("%d %s %s %.250s\n", f.Seq, f.Kind, f.Status, f.Data)
	}
	return out
}

// ends checks how the run ended and that no request broke a rule.
func (l *loop) ends(status, code string) {
	l.t.Helper()
	got := ""
	if l.state.Ending.Error != nil {
		got = l.state.Ending.Error.Code
	}
	if l.state.Attention != nil {
		got = l.state.Attention.Code
	}
	if l.state.Status() != status || got != code {
		l.t.Errorf("the run is %s with %q, want %s with %q\n%s", l.state.Status(), got, status, code, l.text())
	}
	for _, v := range l.server.Violations() {
		l.t.Errorf("turn %d broke a rule: %s", v.Turn, v.Message)
	}
}

func (l *loop) requests() int { return l.server.Count("").Requests }

// problems lists the codes of the calls that were not made.
func (l *loop) problems() []string {
	var out []string
	for i := range l.state.Turns {
		for _, c := range l.state.CallsInOrder(i) {
			if c.Problem != nil {
				out = append(out, c.Problem.Code)
			}
		}
	}
	return out
}

// onEachProvider runs a test on every adapter.
func onEachProvider(t *testing.T, f func(t *testing.T, provider string)) {
	t.Parallel()
	for _, p := range allProviders {
		t.Run(p, func(t *testing.T) {
			t.Parallel()
			f(t, p)
		})
	}
}
