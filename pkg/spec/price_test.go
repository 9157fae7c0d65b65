package spec

import (
	"encoding/json"
	"strings"
	"testing"
)

func modelWith(spec string) (*Model, error) {
	docs, err := Parse("m.yaml", []byte("apiVersion: holdfast/v1\nkind: Model\nmetadata: {name: m}\nspec: {provider: openai-chat, model: x, apiKey: {env: KEY}, "+spec+"}\n"))
	if err != nil {
		return nil, err
	}
	return docs[0].Model, nil
}

func TestPrices_KeepEveryDigit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]MicroUSD{`3`: 3_000_000, `"0.075"`: 75_000, `0.075`: 75_000, `"15.00"`: 15_000_000, `0`: 0, `"0.000001"`: 1, `1000000`: 1e12} {
		m, err := modelWith(`prices: {input: ` + text + `, output: 1}`)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if m.Prices.Input != want || m.Prices.ReadPrice() != want || m.Prices.WritePrice() != want {
			t.Errorf("%s is %d, want %d for all input", text, m.Prices.Input, want)
		}
		raw, err := json.Marshal(m.Prices.Input)
		if err != nil {
			t.Fatal(err)
		}
		if again, ok := ParseMicroUSD(strings.Trim(string(raw), `"`)); !ok || again != want {
			t.Errorf("%s is written %s, which reads %d", text, raw, again)
		}
	}
	m, err := modelWith(`prices: {input: 3, cachedRead: 0, cachedWrite: "3.75", output: 15}`)
	if err != nil || m.Prices.ReadPrice() != 0 || m.Prices.WritePrice() != 3_750_000 {
		t.Errorf("%v: %+v, want a price of zero to be one", err, m)
	}
}

func TestModel_BadFields(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`prices: {input: "0.0000001", output: 1}`:     "spec.prices.input",
		`prices: {input: -1, output: 1}`:              "spec.prices.input",
		`prices: {input: 1e3, output: 1}`:             "spec.prices.input",
		`prices: {input: "1.", output: 1}`:            "spec.prices.input",
		`prices: {input: "", output: 1}`:              "spec.prices.input",
		`prices: {input: ".5", output: 1}`:            "spec.prices.input",
		`prices: {input: 1000000.000001, output: 1}`:  "spec.prices.input",
		`prices: {input: [1], output: 1}`:             "expected an amount",
		`prices: {input: 1}`:                          "spec.prices.output: is required",
		`prices: {input: 1, output: 1, reasoning: 2}`: "reasoning",
		`fallback: [m]`:                               "its own fallback",
		`fallback: ["No Name"]`:                       "spec.fallback[0]",
		`fallback: [a, a]`:                            "spec.fallback",
		`fallback: [a, b, c, d, e, f, g, h, i]`:       "spec.fallback",
	} {
		if _, err := modelWith(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", text, err, want)
		}
	}
	m, err := modelWith(`fallback: [a, b]`)
	if err != nil {
		t.Fatal(err)
	}
	if refs := m.References(); len(refs) != 2 || refs[1].Kind != KindModel || refs[1].Name != "b" || refs[1].Field != "spec.fallback[1]" {
		t.Errorf("references %+v", refs)
	}
}
