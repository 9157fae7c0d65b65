package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func values(pairs ...string) map[string]json.RawMessage {
	m := map[string]json.RawMessage{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = json.RawMessage(pairs[i+1])
	}
	return m
}

func template(t testing.TB, source string) *Template {
	t.Helper()
	x, err := ParseTemplate(json.RawMessage(source))
	if err != nil {
		t.Fatalf("template %s: %v", source, err)
	}
	return x
}

func TestTemplate(t *testing.T) {
	t.Parallel()
	in := values(
		"input", `{"shop":"shop-01","n":12345678901234567890.10,"list":[{"a":1e400},"x"],"none":null,"yes":true,"q":"say \"hi\"\n<&>","x.y":{"}":"odd"}}`,
		"headers", `{"x-github-event":"push"}`)
	tests := map[string]struct {
		source     string
		wantRender string
		wantText   string
	}{
		"one path is the raw value":       {`"${input.n}"`, `12345678901234567890.10`, `12345678901234567890.10`},
		"one path to text":                {`"${input.shop}"`, `"shop-01"`, `shop-01`},
		"one path to an object":           {`"${input.list[0]}"`, `{"a":1e400}`, `{"a":1e400}`},
		"one path to null":                {`"${input.none}"`, `null`, `null`},
		"spaces in the braces":            {`"${ input.shop }"`, `"shop-01"`, `shop-01`},
		"inside text":                     {`"a ${input.shop} b ${input.n} ${input.none} ${input.yes} ${input.list[1]}"`, `"a shop-01 b 12345678901234567890.10 null true x"`, `a shop-01 b 12345678901234567890.10 null true x`},
		"text that needs escapes":         {`"> ${input.q}"`, `"> say \"hi\"\n<&>"`, "> say \"hi\"\n<&>"},
		"an object inside text":           {`"= ${input.list}"`, `"= [{\"a\":1e400},\"x\"]"`, `= [{"a":1e400},"x"]`},
		"a quoted name":                   {`"${input[\"x.y\"][\"}\"]}!"`, `"odd!"`, `odd!`},
		"a header in any case":            {`"${headers.X-GitHub-Event}"`, `"push"`, `push`},
		"escaped":                         {`"$${input.shop} $5 $$ ${input.shop}$"`, `"${input.shop} $5 $$ shop-01$"`, `${input.shop} $5 $$ shop-01$`},
		"no path at all":                  {`"plain"`, `"plain"`, `plain`},
		"empty text":                      {`""`, `""`, ``},
		"literals keep their digits":      {`[1.50,null,true,{}, []]`, `[1.5,null,true,{},[]]`, `[1.5,null,true,{},[]]`},
		"a structure":                     {`{"b":["${input.shop}","x${input.yes}"],"a":{"n":"${input.n}"}}`, `{"a":{"n":12345678901234567890.10},"b":["shop-01","xtrue"]}`, `{"a":{"n":12345678901234567890.10},"b":["shop-01","xtrue"]}`},
		"the whole root":                  {`"${headers}"`, `{"x-github-event":"push"}`, `{"x-github-event":"push"}`},
		"text that looks like a path":     {`"${input.q} {input.shop} $input"`, `"say \"hi\"\n<&> {input.shop} $input"`, "say \"hi\"\n<&> {input.shop} $input"},
		"a value is not a template again": {`"${nested.t} ${nested.t}"`, `"${input.shop} ${input.shop}"`, `${input.shop} ${input.shop}`},
	}
	in["nested"] = json.RawMessage(`{"t":"${input.shop}"}`)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := template(t, tc.source)
			got, err := x.Render(in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.wantRender, string(got)); diff != "" {
				t.Errorf("Render (-want +got):\n%s", diff)
			}
			text, err := x.Text(in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.wantText, text); diff != "" {
				t.Errorf("Text (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTemplate_Missing(t *testing.T) {
	t.Parallel()
	in := values("input", `{"shop":{"a":1},"list":[1,2],"none":null}`, "body", `{broken`)
	tests := map[string]string{
		"${args.x}":         "${args.x}: there is no args here",
		"${input.shp}":      `${input.shp}: input has no "shp"`,
		"${input.shop.b.c}": `${input.shop.b.c}: input.shop has no "b"`,
		"${input.shop.a.c}": "${input.shop.a.c}: input.shop.a is not an object",
		"${input.list[2]}":  "${input.list[2]}: input.list has 2 items",
		"${input.shop[0]}":  "${input.shop[0]}: input.shop is not a list",
		"${input.none.x}":   "${input.none.x}: input.none is not an object",
		"${input.none[0]}":  "${input.none[0]}: input.none is not a list",
		"${body}":           "${body}: body is not valid JSON",
		"${body.x}":         "${body.x}: body is not an object",
	}
	for source, want := range tests {
		x := template(t, string(quote(source)))
		if _, err := x.Render(in); err == nil || err.Error() != want {
			t.Errorf("Render %s: error %v, want %s", source, err, want)
		}
		if _, err := template(t, string(quote("x "+source))).Text(in); err == nil || err.Error() != want {
			t.Errorf("Text %s: error %v, want %s", source, err, want)
		}
	}
}

func TestParseTemplate_Refuses(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		`"${}"`:                                  "is not a path",
		`"${1a}"`:                                "is not a path",
		`"${input"`:                              "has no }",
		`"${input.}"`:                            "a name must follow the dot",
		`"${input[x]}"`:                          "is not an index",
		`"${input[-1]}"`:                         "is not an index",
		`"${input[99999999999]}"`:                "is not an index",
		`"${input[\"a]}"`:                        "has no }",
		`"${input[\"a\"}"`:                       "] is missing",
		`"${input.a + 1}"`:                       "conditions and functions do not work here",
		`"${size(input)}"`:                       "conditions and functions do not work here",
		`{"${input.a}":1}`:                       "a key cannot be a template",
		`{"a":1,"a":2}`:                          "appears twice",
		`"${a` + strings.Repeat(".a", 51) + `}"`: "more than 50 steps",
	}
	for source, want := range tests {
		if _, err := ParseTemplate(json.RawMessage(source)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("template %.60s: error %v, want one with %q", source, err, want)
		}
	}
}

func TestTemplate_OutputIsBounded(t *testing.T) {
	t.Parallel()
	in := values("body", string(quote(strings.Repeat("x", MaxRenderedBytes/4))))
	for _, source := range []string{`"` + strings.Repeat("${body} ", 5) + `"`, `["` + strings.Repeat(`${body}","`, 5) + `"]`} {
		x := template(t, source)
		if _, err := x.Render(in); !errors.Is(err, ErrTooLarge) {
			t.Errorf("Render: error %v, want ErrTooLarge", err)
		}
		if _, err := x.Text(in); !errors.Is(err, ErrTooLarge) {
			t.Errorf("Text: error %v, want ErrTooLarge", err)
		}
	}
}

func TestTemplate_NilAndZero(t *testing.T) {
	t.Parallel()
	for _, x := range []*Template{nil, {}} {
		raw, err := x.Render(nil)
		if err != nil || string(raw) != "null" {
			t.Errorf("Render gave %s, %v; want null", raw, err)
		}
		text, err := x.Text(nil)
		if err != nil || text != "" {
			t.Errorf("Text gave %q, %v; want nothing", text, err)
		}
		if _, err := x.URL(nil); err == nil {
			t.Error("URL gave no error")
		}
	}
}

// number draws JSON numbers that a float would change.
func number(t *rapid.T, label string) string {
	return rapid.StringMatching(`-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?`).Draw(t, label)
}

// TestTemplate_KeepsDigits: wherever a number comes from and wherever a
// template puts it, its spelling stays.
func TestTemplate_KeepsDigits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := number(t, "number")
		in := values("input", `{"a":{"b":[null,`+n+`]}}`)
		place := rapid.SampledFrom([]string{`"${input.a.b[1]}"`, `["${input.a.b[1]}"]`, `{"k":{"l":"${input.a.b[1]}"}}`, `"${input.a}"`, `[0,"${input}"]`}).Draw(t, "template")
		x, err := ParseTemplate(json.RawMessage(place))
		if err != nil {
			t.Fatal(err)
		}
		got, err := x.Render(in)
		if err != nil {
			t.Fatal(err)
		}
		dec := json.NewDecoder(bytes.NewReader(got))
		dec.UseNumber()
		found := false
		for {
			tok, err := dec.Token()
			if err != nil {
				break
			}
			if tok == json.Number(n) {
				found = true
			}
		}
		if !found {
			t.Fatalf("template %s with %s gave %s", place, n, got)
		}
		text, err := TextTemplate("n=${input.a.b[1]};")
		if err != nil {
			t.Fatal(err)
		}
		if s, err := text.Text(in); err != nil || s != "n="+n+";" {
			t.Fatalf("text %q, %v; want n=%s;", s, err, n)
		}
	})
}

// TestParse_KeepsDigits: a number in YAML reaches the body as the same decimal.
func TestParse_KeepsDigits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := number(t, "number")
		docs, err := Parse("x.yaml", []byte("apiVersion: holdfast/v1\nkind: Schedule\nmetadata: {name: x}\nspec:\n  cron: '@daily'\n  agent: a\n  input:\n    n: "+n+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		want, err := jsonNode(json.RawMessage(n))
		if err != nil {
			t.Fatal(err)
		}
		got, err := docs[0].Schedule.Input.Render(nil)
		if err != nil {
			t.Fatal(err)
		}
		back, err := jsonNode(got)
		if err != nil || back.get("n").text != want.text {
			t.Fatalf("number %s became %s (%v)", n, got, err)
		}
		if !bytes.Contains(docs[0].Body, []byte(`"n":`+want.text)) {
			t.Fatalf("number %s is not %s in the body %s", n, want.text, docs[0].Body)
		}
	})
}

func TestTemplate_URL(t *testing.T) {
	t.Parallel()
	const env = `{"BASE":"http://127.0.0.1:9/base/","HOST":"api.example.com:8443","Q":"http://h/?a=b","EVIL":"javascript:alert(1)","USER":"http://user:pw@h"}`
	tests := map[string]struct {
		template string
		args     string
		want     string // the URL, or a part of the error when it starts with "!"
	}{
		"a plain segment":              {"https://x.example/shops/${args.a}/prices", `{"a":"shop-01"}`, "https://x.example/shops/shop-01/prices"},
		"a number":                     {"https://x.example/${args.a}", `{"a":12345678901234567890}`, "https://x.example/12345678901234567890"},
		"a slash stays in its segment": {"https://x.example/shops/${args.a}/prices", `{"a":"../admin"}`, "https://x.example/shops/..%2Fadmin/prices"},
		"a query is not begun":         {"https://x.example/${args.a}", `{"a":"x?y=1#z"}`, "https://x.example/x%3Fy%3D1%23z"},
		"a query value":                {"https://x.example/?q=${args.a}&r=1", `{"a":"a&r=2 ü+%"}`, "https://x.example/?q=a%26r%3D2%20%C3%BC%2B%25&r=1"},
		"an empty query value":         {"https://x.example/?q=${args.a}", `{"a":""}`, "https://x.example/?q="},
		"line ends":                    {"https://x.example/${args.a}", `{"a":"x\r\nHost: evil"}`, "https://x.example/x%0D%0AHost%3A%20evil"},
		"an escape is escaped again":   {"https://x.example/${args.a}/x", `{"a":"%2e%2e"}`, "https://x.example/%252e%252e/x"},
		"dots are no segment":          {"https://x.example/a/${args.a}/x", `{"a":".."}`, "!must not hold the segment"},
		"one dot neither":              {"https://x.example/a/${args.a}", `{"a":"."}`, "!must not hold the segment"},
		"dots beside a dot":            {"https://x.example/a/.${args.a}/x", `{"a":"."}`, "!must not hold the segment"},
		"an empty segment":             {"https://x.example/a/${args.a}/x", `{"a":""}`, "!${args.a} is empty"},
		"null":                         {"https://x.example/a/${args.a}", `{"a":null}`, "!must be text, a number"},
		"an object":                    {"https://x.example/a/${args.a}", `{"a":{}}`, "!must be text, a number"},
		"a missing value":              {"https://x.example/a/${args.a}", `{}`, `!args has no "a"`},
		"a base from the environment":  {"${env.BASE}/shops/${args.a}", `{"a":"x"}`, "http://127.0.0.1:9/base/shops/x"},
		"a host from the environment":  {"https://${env.HOST}/shops/${args.a}", `{"a":"x"}`, "https://api.example.com:8443/shops/x"},
		"env in the path is escaped":   {"https://x.example/${env.HOST}", `{}`, "https://x.example/api.example.com%3A8443"},
		"a base with a query":          {"${env.Q}/x", `{}`, "!holds a query"},
		"another scheme":               {"${env.EVIL}", `{}`, "!must begin with http"},
		"a user in the base":           {"${env.USER}/x", `{}`, "!must not hold a user"},
		"args as the base":             {"${args.a}/x", `{"a":"http://evil"}`, "!may not name the server"},
		"args behind the base":         {"${env.BASE}${args.a}/x", `{"a":"evil"}`, "!may not name the server"},
		"args in the host":             {"https://${args.a}.example.com/", `{"a":"evil/"}`, "!may not name the server"},
		"args behind the host":         {"https://example.com${args.a}", `{"a":".evil"}`, "!may not name the server"},
		"args as the port":             {"https://example.com:${args.a}/", `{"a":"80@evil"}`, "!may not name the server"},
		"a very long value":            {"https://x.example/${args.a}", string(`{"a":"` + strings.Repeat("x", 9000) + `"}`), "!longer than 8192"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x, err := TextTemplate(tc.template)
			if err != nil {
				t.Fatal(err)
			}
			got, err := x.URL(values("args", tc.args, "env", env))
			if part, ok := strings.CutPrefix(tc.want, "!"); ok {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("URL gave %q, error %v; want an error with %q", got, err, part)
				}
				return
			}
			if err != nil || got != tc.want {
				t.Errorf("URL gave %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

// checkSegments asserts that hostile values stay what they are: one segment
// and one query value.
func checkSegments(t interface {
	Helper()
	Fatalf(string, ...any)
}, a, b string) {
	t.Helper()
	x, err := TextTemplate("${env.BASE}/shops/${args.a}/prices?x=${args.b}&y=1")
	if err != nil {
		t.Fatalf("template: %v", err)
	}
	args := `{"a":` + string(quote(a)) + `,"b":` + string(quote(b)) + `}`
	got, err := x.URL(values("args", args, "env", `{"BASE":"https://api.example.com"}`))
	if err != nil {
		return // refused: nothing is sent
	}
	u, err := url.Parse(got)
	if err != nil {
		t.Fatalf("URL %q: %v", got, err)
	}
	segments := strings.Split(u.EscapedPath(), "/")
	if u.Host != "api.example.com" || u.Scheme != "https" || u.User != nil || u.Fragment != "" || len(segments) != 4 || segments[3] != "prices" {
		t.Fatalf("args %s changed the URL: %s", args, got)
	}
	if plain, err := url.PathUnescape(segments[2]); err != nil || plain != jsonText(a) {
		t.Fatalf("segment of %s is %q (%v)", args, plain, err)
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil || len(q) != 2 || q.Get("x") != jsonText(b) || q.Get("y") != "1" {
		t.Fatalf("query of %s is %v (%v)", args, q, err)
	}
}

// jsonText is s after a trip through JSON.
func jsonText(s string) string {
	var out string
	if err := json.Unmarshal(quote(s), &out); err != nil {
		panic(err)
	}
	return out
}

func TestTemplate_URLHostile(t *testing.T) {
	t.Parallel()
	piece := rapid.SampledFrom([]string{"/", "..", ".", "%2e", "?", "#", "@", ":", "\\", "//", "&", "=", "+", " ", "\n", "a", "ü", "evil.com", "\x00", "\u2028", "%"})
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) string {
			return strings.Join(rapid.SliceOfN(rapid.OneOf(piece, rapid.String()), 1, 8).Draw(t, label), "")
		}
		checkSegments(t, draw("a"), draw("b"))
	})
}

func FuzzTemplate(f *testing.F) {
	for _, source := range []string{`"${input.a}"`, `"x ${input.b[0]} $${y} $"`, `{"a":["${input[\"x.y\"]}",1.50,null]}`, `"https://x.example/${input.a}?q=${input.b}"`, `"${env.X}/y"`, `"${input.a.b.c[12]}"`, `[{},[],"",0]`} {
		f.Add(source, `{"a":"s","b":[12345678901234567890,"x"],"x.y":null}`)
	}
	f.Fuzz(func(t *testing.T, source, input string) {
		checkSegments(t, source, input)
		x, err := ParseTemplate(json.RawMessage(source))
		if err != nil {
			return
		}
		again, err := ParseTemplate(x.src)
		if err != nil || string(again.src) != string(x.src) {
			t.Errorf("source %s reads back as %v, %v", x.src, again, err)
		}
		in := values("input", input, "env", `{"X":"https://env.example"}`)
		raw, err := x.Render(in)
		if err == nil && !json.Valid(raw) {
			t.Errorf("template %s with %s rendered invalid JSON %s", source, input, raw)
		}
		text, textErr := x.Text(in)
		if (err == nil) != (textErr == nil) {
			t.Errorf("Render says %v, Text says %v", err, textErr)
		}
		if err == nil && !x.isText() && text != string(raw) {
			t.Errorf("Text gave %q, Render %q", text, raw)
		}
		if u, err := x.URL(in); err == nil {
			if p, err := url.Parse(u); err != nil || p.Host == "" {
				t.Errorf("URL %q: %v", u, err)
			}
		}
	})
}
