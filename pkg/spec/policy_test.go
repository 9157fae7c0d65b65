package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/holdfast-run/holdfast/pkg/events"
)

func decimal(s string) *big.Rat {
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		panic("not a number: " + s)
	}
	return r
}

// tool parses a write tool with extra lines in its spec.
func tool(t testing.TB, lines string) *Tool {
	t.Helper()
	docs, err := Parse("tool.yaml", []byte("apiVersion: holdfast/v1\nkind: Tool\nmetadata: {name: t}\nspec:\n  description: d\n  input: {type: object}\n  effect: write\n  http: {url: \"https://x.example/\"}\n"+lines))
	if err != nil {
		t.Fatal(err)
	}
	return docs[0].Tool
}

func TestTool_GateOfOldForms(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		approval   string
		args       string
		want       bool
		wantPolicy string
	}{
		"nothing said":               {"", `{}`, false, "never"},
		"never":                      {"approval: never", `{}`, false, "never"},
		"always":                     {"approval: always", `{}`, true, "always"},
		"a condition that holds":     {"approval: {when: args.n >= 100}", `{"n":100}`, true, "when args.n >= 100"},
		"a condition that does not":  {"approval: {when: args.n >= 100}", `{"n":99.99}`, false, "when args.n >= 100"},
		"one that cannot be decided": {"approval: {when: args.n >= 100}", `{"n":"99"}`, true, "when args.n >= 100"},
		"the run counts too":         {"approval: {when: run.agent != 'trusted'}", `{}`, false, "when run.agent != 'trusted'"},
	}
	run := &RunFacts{Agent: "trusted"}
	for name, tc := range tests {
		got := tool(t, "  "+tc.approval+"\n").Gate(Asking{}, GateCase{Args: json.RawMessage(tc.args), Run: run})
		if got.Ask != tc.want || got.Policy != tc.wantPolicy || got.Rule != nil {
			t.Errorf("%s: %+v; want %v, %q", name, got, tc.want, tc.wantPolicy)
		}
	}
	if !(&Tool{}).Gate(Asking{}, GateCase{}).Ask {
		t.Error("a tool without a policy does not ask")
	}
}

func TestTool_DoubtPolicy(t *testing.T) {
	t.Parallel()
	cased := "  inDoubt:\n    default: fail\n    cases:\n      - {when: \"args.shop in ['a', 'b']\", policy: retry}\n      - {when: args.shop == 'b', policy: ask}\n"
	tests := map[string]struct{ lines, args, want string }{
		"a write by default":      {"", `{}`, PolicyAsk},
		"as written":              {"  inDoubt: retry\n", `{}`, PolicyRetry},
		"the first case":          {cased, `{"shop":"b"}`, PolicyRetry},
		"no case":                 {cased, `{"shop":"c"}`, PolicyFail},
		"a case that is unclear":  {cased, `{}`, PolicyAsk},
		"arguments that are none": {cased, `{`, PolicyAsk},
	}
	for name, tc := range tests {
		if got := tool(t, tc.lines).DoubtPolicy(json.RawMessage(tc.args)); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
	if got := (&Tool{}).DoubtPolicy(nil); got != PolicyAsk {
		t.Errorf("without a policy: %s, want ask", got)
	}
}

func TestPoliciesDigest(t *testing.T) {
	t.Parallel()
	base := PoliciesDigest([]*Tool{tool(t, "")})
	if again := PoliciesDigest([]*Tool{tool(t, "  timeout: 5s\n")}); again != base {
		t.Error("a timeout is no policy")
	}
	seen := map[events.Digest]string{base: "nothing"}
	for _, lines := range []string{"  approval: always\n", "  approval: {when: args.n > 1}\n", "  inDoubt: retry\n", "  approvalValidFor: 1h\n", "  approvalExpiresAfter: 1h\n", "  inDoubt: {default: ask, cases: [{when: args.n > 1, policy: fail}]}\n"} {
		d := PoliciesDigest([]*Tool{tool(t, lines)})
		if other, ok := seen[d]; ok {
			t.Errorf("%q has the digest of %q", lines, other)
		}
		seen[d] = lines
	}
	if PoliciesDigest(nil) == base {
		t.Error("no tools have the digest of one")
	}
}

func TestTool_BusinessKey(t *testing.T) {
	t.Parallel()
	price := tool(t, "  key: \"price/${args.night}/${args.shop}/${args.product}\"\n")
	refund := tool(t, "  key: \"refund:${args.charge}\"\n")
	tests := map[string]struct {
		tool *Tool
		args string
		want string // "!" starts a part of the error
	}{
		"plain":                     {price, `{"night":"2026-11-29","shop":"shop-01","product":"trail-shoe"}`, "price/2026-11-29/shop-01/trail-shoe"},
		"a separator in a value":    {price, `{"night":"a/b","shop":"c","product":"d%2F e"}`, "price/a%2Fb/c/d%252F e"},
		"one value stays as it is":  {refund, `{"charge":"ch:1/2%"}`, "refund:ch:1/2%"},
		"a number in any spelling":  {refund, `{"charge":10.0}`, "refund:10"},
		"a number beyond a float":   {refund, `{"charge":9007199254740993}`, "refund:9007199254740993"},
		"a part that is absent":     {price, `{"night":"n","shop":"s"}`, `!args has no "product"`},
		"a part that is empty":      {price, `{"night":"n","shop":"","product":"p"}`, "!${args.shop} is empty"},
		"a part that is null":       {refund, `{"charge":null}`, "!must be text, a number"},
		"a part that is an object":  {refund, `{"charge":{}}`, "!must be text, a number"},
		"a key that is too long":    {refund, `{"charge":"` + strings.Repeat("x", 600) + `"}`, "!at most 512"},
		"arguments with two of one": {refund, `{"charge":1,"charge":2}`, "!appears twice"},
		"no arguments":              {refund, ``, "!not canonicalizable"},
	}
	for name, tc := range tests {
		got, ok, err := tc.tool.BusinessKey(json.RawMessage(tc.args))
		if !ok {
			t.Errorf("%s: the tool has no key", name)
		}
		if part, bad := strings.CutPrefix(tc.want, "!"); bad {
			if err == nil || !strings.Contains(err.Error(), part) || got != "" {
				t.Errorf("%s: key %q, error %v; want an error with %q", name, got, err, part)
			}
		} else if err != nil || got != tc.want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, tc.want)
		}
	}
	if key, ok, err := tool(t, "").BusinessKey(json.RawMessage(`{`)); key != "" || ok || err != nil {
		t.Errorf("a tool without a key gave %q, %v, %v", key, ok, err)
	}
}

// TestTool_BusinessKeyIsInjective: two actions never share a key because of
// what stands in their arguments.
func TestTool_BusinessKeyIsInjective(t *testing.T) {
	t.Parallel()
	tools := []*Tool{
		tool(t, "  key: \"p/${args.a}/${args.b}/${args.c}\"\n"),
		tool(t, "  key: \"${args.a}-x${args.b}%${args.c}/end\"\n"),
		tool(t, "  key: \"${args.a}ab${args.b}é${args.c}\"\n"),
	}
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.StringMatching(`[ab/%25FxXéA9-]{1,5}`)
		draw := func(label string) [3]string {
			return [3]string{part.Draw(t, label+"a"), part.Draw(t, label+"b"), part.Draw(t, label+"c")}
		}
		x, y := draw("x"), draw("y")
		if x == y {
			return
		}
		for i, tl := range tools {
			key := func(v [3]string) string {
				args, err := json.Marshal(map[string]string{"a": v[0], "b": v[1], "c": v[2]})
				if err != nil {
					t.Fatal(err)
				}
				k, _, err := tl.BusinessKey(args)
				if err != nil || !utf8.ValidString(k) {
					t.Fatalf("key %q, %v", k, err)
				}
				return k
			}
			if key(x) == key(y) {
				t.Fatalf("tool %d: %q and %q share the key %q", i, x, y, key(x))
			}
		}
	})
}

func TestFirstMessage(t *testing.T) {
	t.Parallel()
	prompt, err := TextTemplate("Check ${input.shop}: ${input}")
	if err != nil {
		t.Fatal(err)
	}
	input := json.RawMessage(`{"shop": "a", "n": 1.00}`)
	if got, err := FirstMessage(&Agent{Prompt: prompt}, input); err != nil || got != `Check a: {"shop": "a", "n": 1.00}` {
		t.Errorf("with a prompt: %q, %v", got, err)
	}
	if got, err := FirstMessage(&Agent{}, input); err != nil || got != string(input) {
		t.Errorf("without a prompt: %q, %v", got, err)
	}
	if got, err := FirstMessage(&Agent{}, nil); err != nil || got != "null" {
		t.Errorf("without an input: %q, %v", got, err)
	}
	blank, err := TextTemplate("${input.shop}")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := FirstMessage(&Agent{Metadata: Metadata{Name: "x"}, Prompt: blank}, json.RawMessage(`{"shop":" "}`)); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("error %v, want one for an empty message", err)
	}
	if _, err := FirstMessage(&Agent{Metadata: Metadata{Name: "x"}, Prompt: prompt}, json.RawMessage(`{}`)); err == nil || !strings.Contains(err.Error(), `input has no "shop"`) {
		t.Errorf("error %v, want one that names the path", err)
	}
}

func TestSecretRef_Resolve(t *testing.T) {
	t.Parallel()
	env := func(name string) (string, bool) {
		v, ok := map[string]string{"A": "value\n", "EMPTY": "", "BIG": strings.Repeat("x", maxSecretBytes+1)}[name]
		return v, ok
	}
	file := func(name string) ([]byte, error) {
		if name == "/a" {
			return []byte("from file\r\n"), nil
		}
		return nil, &fs.PathError{Op: "open", Path: name, Err: os.ErrNotExist}
	}
	tests := map[string]struct {
		ref  SecretRef
		want string
	}{
		"a variable":         {SecretRef{Env: "A"}, "value"},
		"a file":             {SecretRef{File: "/a"}, "from file"},
		"an absent one":      {SecretRef{Env: "B"}, "!environment variable B is not set"},
		"an empty one":       {SecretRef{Env: "EMPTY"}, "!environment variable EMPTY is empty"},
		"one too large":      {SecretRef{Env: "BIG"}, "!holds more than 65536 bytes"},
		"a file that is not": {SecretRef{File: "/b"}, "!read secret: open /b"},
		"nothing":            {SecretRef{}, "!names neither env nor file"},
	}
	for name, tc := range tests {
		got, err := tc.ref.Resolve(env, file)
		if part, bad := strings.CutPrefix(tc.want, "!"); bad {
			if err == nil || !strings.Contains(err.Error(), part) || got != "" {
				t.Errorf("%s: %q, error %v; want one with %q", name, got, err, part)
			}
		} else if err != nil || got != tc.want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, tc.want)
		}
	}
	if _, err := (SecretRef{File: "/b"}).Resolve(env, file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v does not wrap the cause", err)
	}
}

func TestHTTP_Values(t *testing.T) {
	t.Parallel()
	tl := tool(t, "")
	docs, err := Parse("x.yaml", []byte(`
apiVersion: holdfast/v1
kind: Tool
metadata: {name: t}
spec:
  description: d
  input: {type: object}
  effect: write
  http:
    url: "${env.HOLDFAST_TOOL_URL}/x"
    headers: {Authorization: "Bearer ${secret.token}"}
    secrets: {token: {env: TOKEN}, unused: {env: NOT_SET}}
`))
	if err != nil {
		t.Fatal(err)
	}
	h := docs[0].Tool.HTTP
	env := map[string]string{"HOLDFAST_TOOL_URL": "https://x.example", "TOKEN": "s3cret"}
	look := func(n string) (string, bool) { v, ok := env[n]; return v, ok }
	got, err := h.EnvValues(look)
	if err != nil || string(got) != `{"HOLDFAST_TOOL_URL":"https://x.example"}` {
		t.Errorf("env %s, %v", got, err)
	}
	secrets, err := h.SecretValues(look, os.ReadFile)
	if err != nil || string(secrets) != `{"token":"s3cret"}` {
		t.Errorf("secrets %s, %v; those that are not used must stay unread", secrets, err)
	}
	u, err := h.URL.URL(map[string]json.RawMessage{"env": got, "args": json.RawMessage(`{}`)})
	if err != nil || u != "https://x.example/x" {
		t.Errorf("URL %q, %v", u, err)
	}
	clear(env)
	if _, err := h.EnvValues(look); err == nil || !strings.Contains(err.Error(), "HOLDFAST_TOOL_URL is not set") {
		t.Errorf("error %v, want one that names the variable", err)
	}
	if _, err := h.SecretValues(look, os.ReadFile); err == nil || !strings.Contains(err.Error(), "resolve secret token") {
		t.Errorf("error %v, want one that names the secret", err)
	}
	if got, err := tl.HTTP.EnvValues(look); err != nil || string(got) != "{}" {
		t.Errorf("a tool without env: %s, %v", got, err)
	}
}

func TestSetting_Resolve(t *testing.T) {
	t.Parallel()
	look := func(n string) (string, bool) { return "from " + n, n == "A" }
	for x, want := range map[Setting]string{{}: "", {Value: "v"}: "v", {Env: "A"}: "from A"} {
		if got := x.Resolve(look); got != want {
			t.Errorf("%+v: %q, want %q", x, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := Duration(rapid.Int64Range(0, int64(100*24*time.Hour)).Draw(t, "d"))
		back, err := parseDuration(d.String())
		if err != nil || back != d.Std() {
			t.Fatalf("%d ns is written %s and reads as %v, %v", int64(d), d, back, err)
		}
	})
	for text, want := range map[string]string{"72h": "72h", "3d": "72h", "90m": "1h30m", "60s": "1m", "1h0m5s": "1h0m5s", "1.5s": "1.5s"} {
		d, err := parseDuration(text)
		if err != nil || Duration(d).String() != want {
			t.Errorf("%s is written %s (%v), want %s", text, Duration(d), err, want)
		}
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	fields := []string{"url", "method", "headers", "body", "secrets", "idempotencyHeader"}
	tests := map[string]string{
		"urll": "url", "URL": "url", "header": "headers", "mehtod": "method", "idempotency_header": "idempotencyHeader",
		"x": "", "timeout": "", "": "", "zzzzzzz": "", strings.Repeat("u", 1000): "",
	}
	for name, want := range tests {
		if got := Nearest(name, fields); got != want {
			t.Errorf("nearest to %.20q is %q, want %q", name, got, want)
		}
	}
	if got := Nearest("ab", []string{"ac", "aa"}); got != "aa" {
		t.Errorf("a tie goes to %q, want the first in order", got)
	}
}

func TestBudget_Start(t *testing.T) {
	t.Parallel()
	ny, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		hour     int64
		at       string // New York wall clock, or UTC with Z
		want     string
		wantName string
	}{
		"before the hour is the day before": {18, "2026-11-29 17:59", "2026-11-28 18:00", "2026-11-28"},
		"the hour begins a window":          {18, "2026-11-29 18:00", "2026-11-29 18:00", "2026-11-29"},
		"two in the night":                  {18, "2026-11-29 02:00", "2026-11-28 18:00", "2026-11-28"},
		"midnight":                          {0, "2026-11-29 00:00", "2026-11-29 00:00", "2026-11-29"},
		"the first of a month":              {18, "2026-12-01 03:00", "2026-11-30 18:00", "2026-11-30"},
		"the first of a year":               {18, "2027-01-01 03:00", "2026-12-31 18:00", "2026-12-31"},
		"after the clock jumped forward":    {18, "2026-03-08 12:00", "2026-03-07 18:00", "2026-03-07"},
		"after the clock was set back":      {18, "2026-11-01 12:00", "2026-10-31 18:00", "2026-10-31"},
		"an hour that was skipped":          {2, "2026-03-08 03:30", "2026-03-08 03:00", "2026-03-08"},
		"before an hour that was skipped":   {2, "2026-03-08 01:59", "2026-03-07 02:00", "2026-03-07"},
	}
	for name, tc := range tests {
		b := &Budget{Window: &Window{TimeZone: "America/New_York", StartHour: tc.hour}}
		at, err := time.ParseInLocation("2006-01-02 15:04", tc.at, ny)
		if err != nil {
			t.Fatal(err)
		}
		start, window := b.Start(at.UTC())
		if got := start.In(ny).Format("2006-01-02 15:04"); got != tc.want || window != tc.wantName {
			t.Errorf("%s: starts %s, window %s; want %s, %s", name, got, window, tc.want, tc.wantName)
		}
	}
	if start, name := (&Budget{}).Start(time.Now()); !start.IsZero() || name != "all" {
		t.Errorf("without a window: %v, %s", start, name)
	}
	// One window has one name, and time never runs back into an earlier one.
	for hour := range int64(24) {
		b := &Budget{Window: &Window{TimeZone: "America/New_York", StartHour: hour}}
		last, names := time.Time{}, map[string]time.Time{}
		for at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() == 2026; at = at.Add(15 * time.Minute) {
			start, name := b.Start(at)
			if start.Before(last) || start.After(at) || at.Sub(start) > 25*time.Hour {
				t.Fatalf("hour %d: the window at %v starts %v, the one before %v", hour, at, start, last)
			}
			if first, ok := names[name]; ok && !first.Equal(start) {
				t.Fatalf("hour %d: window %s starts %v and %v", hour, name, first, start)
			}
			last, names[name] = start, start
		}
	}
}

func TestFlow_Helpers(t *testing.T) {
	t.Parallel()
	docs, err := ParseAll(exampleFiles(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range docs {
		if doc.Flow == nil {
			continue
		}
		if st := doc.Flow.Step("check"); st == nil || st.Limit != 30 || st.OnFailure != OnFailureContinue {
			t.Errorf("step check is %+v", st)
		}
		if doc.Flow.Step("nothing") != nil {
			t.Error("a step that is not there was found")
		}
		in := values("input", `{"night":"2026-11-29","competitors":[{"shop":"shop-01","url":"http://127.0.0.1:1/","product":"p","n":1.50}]}`,
			"item", `{"shop":"shop-01","url":"http://127.0.0.1:1/","product":"p"}`, "steps", `{"check":{"outputs":[null,"x"]}}`)
		var got []string
		for _, st := range doc.Flow.Steps {
			raw, err := st.Input.Render(in)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(raw))
		}
		want := []string{`{"night":"2026-11-29","product":"p","shop":"shop-01","url":"http://127.0.0.1:1/"}`, `{"night":"2026-11-29","results":[null,"x"]}`}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("step inputs (-want +got):\n%s", diff)
		}
		return
	}
	t.Error("the example has no flow")
}

func TestProblems(t *testing.T) {
	t.Parallel()
	a, b := &Error{File: "a", Line: 1, Column: 2, Field: "f", Message: "m"}, &Error{Message: "n"}
	err := fmt.Errorf("apply: %w", errors.Join(a, fmt.Errorf("x: %w", b)))
	if got := Problems(err); len(got) != 2 || got[0] != a || got[1] != b {
		t.Errorf("problems %v", got)
	}
	if Problems(nil) != nil || Problems(errors.New("x")) != nil {
		t.Error("problems where there are none")
	}
	for e, want := range map[*Error]string{a: "a:1:2: f: m", b: "n", {File: "x", Message: "m"}: "x: m", {Field: "spec.a", Message: "m"}: "spec.a: m"} {
		if e.Error() != want {
			t.Errorf("%q, want %q", e.Error(), want)
		}
	}
}
