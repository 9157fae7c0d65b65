package tools

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// asked is a kind that answers what the test says and keeps what it was asked.
type asked struct {
	out  Outcome
	seen *Request
}

func (asked) Name() string           { return "asked" }
func (asked) Runs(t *spec.Tool) bool { return t.MCP != nil }
func (a asked) Act(_ context.Context, r Request) Outcome {
	*a.seen = r
	return a.out
}

func TestJudge(t *testing.T) {
	t.Parallel()
	docs, err := spec.Parse("x.yaml", []byte(`
apiVersion: holdfast/v1
kind: Tool
metadata: {name: pay}
spec:
  description: d
  input: {type: object}
  effect: write
  key: "pay/${args.n}"
  http: {url: "https://x.example"}
  inDoubt:
    probe:
      mcp: {server: s, tool: find, schema: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}
      effect: read
      args: {ref: "${key}"}
      happened: answer.body.n == args.n
      notHappened: answer.body.n == 0 || answer.body.both
      result: {id: "${answer.body.id}"}
`))
	if err != nil {
		t.Fatal(err)
	}
	tool := docs[0].Tool
	args := json.RawMessage(`{"n":9007199254740993}`)
	happened := func(body string) Outcome { return Outcome{Verdict: Happened, Result: json.RawMessage(body)} }
	for name, tc := range map[string]struct {
		out    Outcome
		want   string
		result string
	}{
		"it happened, every digit":  {happened(`{"n":9007199254740993,"id":12345678901234567890,"both":false}`), events.Happened, `{"id":12345678901234567890}`},
		"another number is none":    {happened(`{"n":9007199254740992,"both":false}`), undecided, ""},
		"it did not happen":         {happened(`{"n":0}`), events.NotHappened, ""},
		"both hold":                 {happened(`{"n":9007199254740993,"both":true}`), undecided, ""},
		"a field is not there":      {happened(`{}`), undecided, ""},
		"the answer is null":        {happened(``), undecided, ""},
		"its result cannot be made": {happened(`{"n":9007199254740993,"both":false}`), events.Happened, string(resultLost)},
		"refused":                   {Outcome{Verdict: Refused, Result: json.RawMessage(`{"n":0}`)}, undecided, ""},
		"nobody answers":            {Outcome{Verdict: NotSent, Error: problem("unreachable", "nobody")}, undecided, ""},
		"time-out":                  {Outcome{Error: problem("timeout", "no answer in time")}, undecided, ""},
	} {
		var seen Request
		s := &Service{kinds: []Kind{asked{tc.out, &seen}}, now: time.Now, log: slog.New(slog.DiscardHandler)}
		c := events.CallTool{Tool: "pay", Args: args}
		r, result := s.look(t.Context(), &job{c: c, tool: tool, plan: MakePlan(tool, c), log: s.log})
		if r.Probe != tc.want || string(result) != tc.result {
			t.Errorf("%s: %s with %s (%s), want %s with %s", name, r.Probe, result, r.Error, tc.want, tc.result)
		}
		if !seen.Look || seen.Class != ClassRead || seen.Tool.Effect != spec.EffectRead || seen.Tool.HTTP != nil || string(seen.Args) != `{"ref":"pay/9007199254740993"}` {
			t.Errorf("%s: asked %+v", name, seen)
		}
	}
	if r, _ := (&Service{now: time.Now}).look(t.Context(), &job{}); r.Probe != undecided {
		t.Errorf("without a definition: %+v", r)
	}
}
