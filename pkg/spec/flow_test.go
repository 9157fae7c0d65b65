package spec

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The flows in docs/flows.md are valid.
func TestFlow_Docs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/flows.md")
	if err != nil {
		t.Fatal(err)
	}
	samples := strings.Split(string(text), "```yaml\n")[1:]
	if len(samples) == 0 {
		t.Fatal("docs/flows.md shows no document")
	}
	for _, sample := range samples {
		sample, _, _ = strings.Cut(sample, "```")
		docs, err := Parse("docs/flows.md", []byte(sample))
		if err != nil {
			t.Fatal(err)
		}
		var kinds []string
		for _, st := range docs[0].Flow.Steps {
			kinds = append(kinds, st.Kind())
		}
		if want := []string{StepAgent, StepApproval, StepSleep, StepTool, StepFlow}; !cmp.Equal(kinds, want) {
			t.Errorf("the document shows %v, want every kind: %v", kinds, want)
		}
	}
}

func parseFlow(t *testing.T, steps string) *Document {
	t.Helper()
	docs, err := Parse("t.yaml", []byte("apiVersion: holdfast/v1\nkind: Flow\nmetadata: {name: f}\nspec: {steps: ["+steps+"]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	return &docs[0]
}

func TestFlow_StoredFormReadsBack(t *testing.T) {
	t.Parallel()
	doc := parseFlow(t, `{name: t, tool: x, retry: {attempts: 3}}, {name: a, approval: {text: "a ${input.b}"}}, {name: s, sleep: {for: 2d}, when: "true"}, {name: f, flow: g, needs: [s]}`)
	st := doc.Flow.Steps
	if st[0].Retry.Backoff.Std() != 10*time.Second || st[1].Approval.ExpiresAfter.Std() != 72*time.Hour || st[2].Input != nil || st[3].Input == nil {
		t.Errorf("defaults: %s", doc.Body)
	}
	if strings.Contains(string(doc.Body), `"agent"`) {
		t.Errorf("the stored form names what the steps do not have: %s", doc.Body)
	}
	again, err := Decode(doc.Body)
	if err != nil || again.Digest != doc.Digest {
		t.Errorf("read back: %v", err)
	}
	var refs []string
	for _, r := range doc.References() {
		refs = append(refs, r.Kind+" "+r.Name+" "+r.Field)
	}
	if diff := cmp.Diff([]string{"tool x spec.steps[0].tool", "flow g spec.steps[3].flow"}, refs); diff != "" {
		t.Errorf("references (-want +got):\n%s", diff)
	}
}

func TestStepPause_End(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 2, 0, 0, 0, time.UTC)
	values := map[string]json.RawMessage{"input": json.RawMessage(`{"for":"90m","until":"2026-11-29T07:00:00+01:00","past":"2026-11-01T00:00:00Z","n":5,"year":"2028-01-01T00:00:00Z","long":"400d"}`)}
	for name, tc := range map[string]struct {
		step string
		want time.Time
		bad  string
	}{
		"for":                    {step: `{for: "${input.for}"}`, want: now.Add(90 * time.Minute)},
		"until":                  {step: `{until: "${input.until}"}`, want: now.Add(4 * time.Hour)},
		"a time that has passed": {step: `{until: "${input.past}"}`, want: now},
		"a number is no time":    {step: `{for: "${input.n}"}`, bad: `for: "5" is not a length`},
		"a length is no time":    {step: `{until: "${input.for}"}`, bad: `until: "90m" is not a time`},
		"what is not there":      {step: `{for: "${input.none}"}`, bad: `no "none"`},
		"further than a year":    {step: `{until: "${input.year}"}`, bad: "more than 366 days"},
		"longer than a year":     {step: `{for: "${input.long}"}`, bad: "at most 366d"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseFlow(t, "{name: s, sleep: "+tc.step+"}").Flow.Steps[0].Sleep.End(values, now)
			if tc.bad == "" && (err != nil || !got.Equal(tc.want)) || tc.bad != "" && (err == nil || !strings.Contains(err.Error(), tc.bad)) {
				t.Errorf("%v, %v; want %v, %q", got, err, tc.want, tc.bad)
			}
		})
	}
}

// A step that is filled in renders what it would with all values at once.
func TestStep_WithRendersTheSame(t *testing.T) {
	t.Parallel()
	st := parseFlow(t, `{name: s, agent: a, forEach: "${input.list}", input: {i: "${item.x}", n: "${input.n}", t: "a ${input.t} $${b} ${item.x}", l: ["${input.t}", [], {}], e: ""}}`).Flow.Steps[0]
	input := json.RawMessage(`{"list":[],"n":12345678901234567890.10,"t":"\"q\""}`)
	item := json.RawMessage(`{"x":[1, 2]}`)
	want, err := st.Input.Render(map[string]json.RawMessage{"input": input, "item": item})
	if err != nil {
		t.Fatal(err)
	}
	filled, err := st.With(map[string]json.RawMessage{"input": input})
	if err != nil {
		t.Fatal(err)
	}
	got, err := filled.Input.Render(map[string]json.RawMessage{"item": item})
	if err != nil || string(got) != string(want) {
		t.Errorf("%s, %v\nwant %s", got, err, want)
	}
	if again, _ := st.Input.Render(map[string]json.RawMessage{"input": input, "item": item}); string(again) != string(want) {
		t.Errorf("filling in changed the step itself: %s", again)
	}
	if _, err := st.With(map[string]json.RawMessage{"input": json.RawMessage(`{}`)}); err == nil || !strings.HasPrefix(err.Error(), "input: ") {
		t.Errorf("a value that is not there: %v", err)
	}
}

// A flow that an older release took is read as it is stored: its run finishes.
func TestFlow_StoredConditionIsLeftAlone(t *testing.T) {
	t.Parallel()
	doc := parseFlow(t, `{name: a, agent: x}, {name: b, agent: x, needs: [a], when: "steps.a.skipped"}`)
	body := json.RawMessage(strings.Replace(string(doc.Body), `"needs":["a"]`, `"needs":[]`, 1))
	if string(body) == string(doc.Body) {
		t.Fatalf("the body has no needs: %s", body)
	}
	if _, err := DecodeFlow(body); err != nil {
		t.Error(err)
	}
}
