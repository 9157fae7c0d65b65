package spec

import (
	"strings"
	"testing"
	"time"
)

func TestBudget_LimitsAreDigitExact(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		ceiling int64
		json    string
	}{
		"{limit: 1000}":               {1000, `"limit":1000`},
		"{unit: usd, limit: 2.50}":    {2_500_000, `"limit":"2.5"`},
		`{unit: usd, limit: "0.01"}`:  {10_000, `"limit":"0.01"`},
		"{unit: usd, limit: 3}":       {3_000_000, `"limit":3`},
		"{unit: toolCalls, limit: 6}": {6, `"limit":6`},
	} {
		docs, err := Parse("t.yaml", []byte("apiVersion: holdfast/v1\nkind: Budget\nmetadata: {name: b}\nspec: "+text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		again, err := DecodeBudget(docs[0].Body)
		if err != nil || again.Ceiling() != want.ceiling || docs[0].Budget.Ceiling() != want.ceiling || !strings.Contains(string(docs[0].Body), want.json) {
			t.Errorf("%s: ceiling %d, stored %s (%v)", text, docs[0].Budget.Ceiling(), docs[0].Body, err)
		}
	}
	for text, want := range map[string]string{
		"{limit: 1.5}":                         "1.5 is no whole number, and tokens are counted",
		"{unit: usd, limit: 1000001}":          "is more than 1000000 dollars",
		"{unit: usd, limit: -1}":               "is not an amount",
		"{unit: usd, limit: 0.0000001}":        "is not an amount",
		"{unit: usd, limit: 1e3}":              "is not an amount",
		"{unit: usd, limit: true}":             "expected an amount",
		"{unit: eur, limit: 1}":                "is not one of tokens, usd, modelCalls, toolCalls",
		"{unit: usd, limit: 1, onExceeded: x}": "is not one of pause, fail, alert",
	} {
		_, err := Parse("t.yaml", []byte("apiVersion: holdfast/v1\nkind: Budget\nmetadata: {name: b}\nspec: "+text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestAgentBudget_BadValues(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{cost: -1}":          "is not an amount",
		"{cost: free}":        "is not an amount",
		"{steps: -1}":         "outside 0 to",
		"{wallTime: 60}":      "its unit",
		"{wallTime: 1ms}":     "outside 1s",
		"{onExceeded: alert}": "is not one of pause, fail",
		"{onExceeded: fail, cost: 0.25, steps: 3, wallTime: 2h}": "",
	} {
		_, err := Parse("t.yaml", []byte("apiVersion: holdfast/v1\nkind: Agent\nmetadata: {name: a}\nspec: {model: m, instructions: i, budget: "+text+"}"))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestFlowBudget(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{}":                             "names no ceiling",
		"{onExceeded: fail}":             "names no ceiling",
		"{tokens: 1, onExceeded: alert}": "is not one of pause, fail",
		"{modelCalls: -1}":               "outside 0 to",
		"{steps: -1}":                    "outside 0 to",
		"{wallTime: 10ms}":               "wallTime",
		"{wallTime: 400d}":               "wallTime",
		"{wallTime: soon}":               "wallTime",
		"{modelCalls: 3, cost: \"0.50\", steps: 7, wallTime: 2h}": "",
	} {
		docs, err := Parse("t.yaml", []byte("apiVersion: holdfast/v1\nkind: Flow\nmetadata: {name: f}\nspec: {steps: [{name: a, agent: x}], budget: "+text+"}"))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
			continue
		}
		if err == nil {
			shared := docs[0].Flow.Budget.Shared()
			if len(shared) != 3 || shared[2].Unit != UnitSteps || shared[2].Ceiling() != 7 || docs[0].Flow.Budget.WallTime.Std() != 2*time.Hour || shared[0].Unit != UnitModelCalls || shared[0].Ceiling() != 3 || shared[1].Unit != UnitUSD || shared[1].Ceiling() != 500_000 || shared[1].OnExceeded != OnExceededPause {
				t.Errorf("%s: shared %+v", text, shared)
			}
		}
	}
}

func TestUnpriced(t *testing.T) {
	t.Parallel()
	docs, err := Parse("t.yaml", []byte(`
apiVersion: holdfast/v1
kind: Agent
metadata: {name: own}
spec: {model: m, instructions: i, budget: {cost: 1}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: shared}
spec: {model: m, instructions: i, budget: {pools: [dollars]}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: free}
spec: {model: spare, instructions: i}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: m}
spec: {provider: anthropic, model: x, apiKey: {env: K}, prices: {input: 1, output: 2}, fallback: [spare]}
---
apiVersion: holdfast/v1
kind: Budget
metadata: {name: dollars}
spec: {unit: usd, limit: 2}
`))
	if err != nil {
		t.Fatal(err)
	}
	stored, err := Parse("s.yaml", []byte("apiVersion: holdfast/v1\nkind: Model\nmetadata: {name: spare}\nspec: {provider: anthropic, model: x, apiKey: {env: K}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	got := Unpriced(docs, func(kind, name string) *Document {
		if kind == KindModel && name == "spare" {
			return &stored[0]
		}
		return nil
	})
	if len(got) != 2 || got[0].Field != "spec.budget.cost" || got[0].Line != 5 || got[1].Field != "spec.budget.pools[0]" || !strings.Contains(got[0].Message, `Model "spare" has no prices`) {
		t.Errorf("problems %v", got)
	}
	if got := Unpriced(docs, func(string, string) *Document { return nil }); len(got) != 0 {
		t.Errorf("problems about models that nobody knows: %v", got)
	}
}
