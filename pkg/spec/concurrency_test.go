package spec_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

func concurrency(t *testing.T, list string) ([]spec.Concurrency, error) {
	t.Helper()
	docs, err := spec.Parse("a.yaml", []byte("apiVersion: holdfast/v1\nkind: Agent\nmetadata: {name: a}\nspec: {model: m, instructions: i, concurrency: ["+list+"]}\n"))
	if err != nil {
		return nil, err
	}
	flow, err := spec.Parse("f.yaml", []byte("apiVersion: holdfast/v1\nkind: Flow\nmetadata: {name: f}\nspec: {steps: [{name: s, agent: a}], concurrency: ["+list+"]}\n"))
	if err != nil || len(flow[0].Flow.Concurrency) != len(docs[0].Agent.Concurrency) {
		t.Errorf("a flow takes %s otherwise than an agent: %v", list, err)
	}
	return docs[0].Agent.Concurrency, nil
}

func TestConcurrency_BadValues(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]string{
		`{key: input.a}`:                          "spec.concurrency[0].max: 0 is outside 1 to 10000",
		`{max: 0}`:                                "spec.concurrency[0].max",
		`{max: 10001}`:                            "spec.concurrency[0].max",
		`{max: 1, whenFull: wait}`:                "spec.concurrency[0].whenFull",
		`{max: 1, scope: world}`:                  "spec.concurrency[0].scope",
		`{max: 1, scope: namespace}`:              "namespace needs a key",
		`{max: 1, whenFull: reject, queueMax: 3}`: "belongs to whenFull: queue",
		`{max: 1, queueMax: -1}`:                  "spec.concurrency[0].queueMax",
		`{max: 1, key: "inptu.shop"}`:             `did you mean "input"?`,
		`{max: 1, key: "[1]"}`:                    "it must be a text, a whole number, true or false",
		`{max: 1, key: "1.5"}`:                    "it must be a text, a whole number, true or false",
		`{max: 1, key: ""}`:                       "spec.concurrency[0].key",
		`{max: 1, kye: a}`:                        `did you mean "key"?`,
		`{max: 1}, {max: 2}`:                      "limits the same runs",
		`{max: 1}, {max: 1, key: input.a}, {max: 1, key: input.b}, {max: 1, key: input.c}`: "has 4 limits; at most 3",
	} {
		if _, err := concurrency(t, list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gave %v, want %q", list, err, want)
		}
	}
}

func keys(t *testing.T, list, ref, input string) ([]events.ConcurrencyKey, error) {
	t.Helper()
	c, err := concurrency(t, list)
	if err != nil {
		t.Fatal(err)
	}
	return spec.ConcurrencyKeys(c, events.Ref{Kind: events.KindAgent, Name: ref}, json.RawMessage(input), map[string]string{"shop": "4711"}, events.Trigger{Kind: "webhook", Name: "orders"})
}

func TestConcurrencyKeys(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]string{
		`{max: 1}`:                     "agent a a 1 queue",
		`{max: 2, key: input.shop}`:    "s a 2 queue",
		`{max: 2, key: input.n}`:       "9007199254740993 a 2 queue",
		`{max: 2, key: "input.n > 1"}`: "true a 2 queue",
		`{max: 1, key: labels.shop}`:   "4711 a 1 queue",
		`{max: 1, key: "trigger.kind + ':' + trigger.name", whenFull: reject}`:       "webhook:orders a 1 reject",
		`{max: 1, key: "'shop:' + input.shop", scope: namespace, whenFull: replace}`: "shop:s  1 replace",
	} {
		got, err := keys(t, list, "a", `{"shop":"s","n":9007199254740993}`)
		if err != nil || len(got) != 1 {
			t.Errorf("%s: %v %v", list, got, err)
			continue
		}
		if k := got[0]; fmt.Sprint(k.Shown, " ", k.Name, " ", k.Max, " ", k.WhenFull) != want {
			t.Errorf("%s: %+v, want %s", list, k, want)
		}
	}
	for list, want := range map[string]string{
		`{max: 1, key: input.none}`:           "no such key: none",
		`{max: 1, key: input.list}`:           "gave list",
		`{max: 1, key: input.nil}`:            "gave null_type",
		`{max: 1, key: input.empty}`:          "a text of 0 bytes",
		`{max: 1, key: input.price}`:          "gave double",
		`{max: 1}, {max: 1, key: input.none}`: "concurrency[1]",
	} {
		if _, err := keys(t, list, "a", `{"list":[1],"nil":null,"empty":"","price":1.5}`); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gave %v, want %q", list, err, want)
		}
	}
}

// Which runs count together: the same value of the same key of the same agent, or
// the same value in the namespace.
func TestConcurrencyKeys_CountTogether(t *testing.T) {
	t.Parallel()
	key := func(list, ref, input string) events.ConcurrencyKey {
		got, err := keys(t, list, ref, input)
		if err != nil {
			t.Fatal(err)
		}
		return got[0]
	}
	own, wide := `{max: 1, key: input.shop}`, `{max: 1, key: input.shop, scope: namespace}`
	base := key(own, "a", `{"shop":"x","region":"x"}`).Key
	if key(own, "a", `{"shop":"x","more":1}`).Key != base || key(wide, "a", `{"shop":"x"}`).Key != key(wide, "b", `{"shop":"x"}`).Key {
		t.Error("equal keys do not count together")
	}
	for what, other := range map[string]events.Digest{
		"another value":   key(own, "a", `{"shop":"y"}`).Key,
		"another agent":   key(own, "b", `{"shop":"x"}`).Key,
		"another key":     key(`{max: 1, key: input.region}`, "a", `{"region":"x"}`).Key,
		"the namespace":   key(wide, "a", `{"shop":"x"}`).Key,
		"the whole agent": key(`{max: 1}`, "a", `{}`).Key,
	} {
		if other == base {
			t.Errorf("%s counts together with it", what)
		}
	}
	long := key(own, "a", `{"shop":"`+strings.Repeat("ü", 400)+`\n"}`)
	if n := len([]rune(long.Shown)); n > 120 || strings.ContainsAny(long.Shown, "\n") {
		t.Errorf("shown with %d runes: %q", n, long.Shown)
	}
}
