package spec

import (
	"encoding/json"
	"fmt"
	"testing"
)

// The spellings are those of OpenAPI 3.1, "Style Examples".
func TestAddQuery(t *testing.T) {
	t.Parallel()
	args := `{"list":["blue","black brown"],"object":{"R":100,"G":"2&0"},"text":"a=b&c","big":12345678901234567890123,"yes":true,"none":null,"empty":[]}`
	for name, tc := range map[string]struct{ query, want string }{
		"text is escaped":       {`{a: "${args.text}"}`, "?a=a%3Db%26c"},
		"a number keeps digits": {`{a: "${args.big}"}`, "?a=12345678901234567890123"},
		"a boolean":             {`{a: "${args.yes}"}`, "?a=true"},
		"absent is left out":    {`{a: "${args.nothing}", b: "${args.yes}"}`, "?b=true"},
		"absent below absent":   {`{a: "${args.nothing.more}"}`, ""},
		"null is left out":      {`{a: "${args.none}"}`, ""},
		"a list":                {`{a: "${args.list}"}`, "?a=blue&a=black%20brown"},
		"an empty list":         {`{a: "${args.empty}"}`, ""},
		"a list in one":         {`{a: {value: "${args.list}", explode: false}}`, "?a=blue,black%20brown"},
		"a list with spaces":    {`{a: {value: "${args.list}", style: spaceDelimited}}`, "?a=blue%20black%20brown"},
		"a list with pipes":     {`{a: {value: "${args.list}", style: pipeDelimited}}`, "?a=blue%7Cblack%20brown"},
		"an object":             {`{a: "${args.object}"}`, "?R=100&G=2%260"},
		"an object in one":      {`{a: {value: "${args.object}", explode: false}}`, "?a=R,100,G,2%260"},
		"a deep object":         {`{a: {value: "${args.object}", style: deepObject}}`, "?a%5BR%5D=100&a%5BG%5D=2%260"},
		"longer text":           {`{a: "x${args.yes}"}`, "?a=xtrue"},
		"a constant":            {`{a: 2, "b c": d}`, "?a=2&b%20c=d"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			docs, err := Parse("t.yaml", fmt.Appendf(nil, "apiVersion: holdfast/v1\nkind: Tool\nmetadata: {name: t}\nspec: {description: d, input: {type: object}, effect: read, http: {url: \"http://x/\", query: %s}}\n", tc.query))
			if err != nil {
				t.Fatal(err)
			}
			again, err := DecodeTool(docs[0].Body)
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range []*HTTP{docs[0].Tool.HTTP, again.HTTP} {
				got, err := h.AddQuery("http://x/", map[string]json.RawMessage{"args": json.RawMessage(args)})
				// Objects are read in the order of canonical JSON.
				if want := "http://x/" + tc.want; err != nil || got != want && got != "http://x/"+swapped[tc.want] {
					t.Errorf("%s, %v; want %s", got, err, want)
				}
			}
		})
	}
}

var swapped = map[string]string{
	"?R=100&G=2%260":               "?G=2%260&R=100",
	"?a=R,100,G,2%260":             "?a=G,2%260,R,100",
	"?a%5BR%5D=100&a%5BG%5D=2%260": "?a%5BG%5D=2%260&a%5BR%5D=100",
}

func TestAddQuery_JoinsAndRefuses(t *testing.T) {
	t.Parallel()
	values := map[string]json.RawMessage{"args": json.RawMessage(`{"a":{"b":{"c":1}},"list":[1]}`)}
	query := func(path, style string) *HTTP {
		v, err := TextTemplate("${args." + path + "}")
		if err != nil {
			t.Fatal(err)
		}
		return &HTTP{Query: map[string]QueryParam{"q": {Value: v, Style: style, Explode: true}}}
	}
	if got, err := query("list", StyleForm).AddQuery("http://x/?k=1#end", values); err != nil || got != "http://x/?k=1&q=1#end" {
		t.Errorf("%s, %v", got, err)
	}
	for path, style := range map[string]string{"a": StyleForm, "list": StyleDeep} {
		if got, err := query(path, style).AddQuery("http://x/", values); err == nil {
			t.Errorf("%s as %s became %s", path, style, got)
		}
	}
	// A path through what is not an object is a mistake, not an absent value.
	if got, err := query("list.x", StyleForm).AddQuery("http://x/", values); err == nil {
		t.Errorf("a member of a list became %s", got)
	}
}

func TestSchemaDigest(t *testing.T) {
	t.Parallel()
	digest := func(name, description, schema string) string {
		d, err := SchemaDigest(name, description, json.RawMessage(schema))
		if err != nil {
			t.Fatal(err)
		}
		return string(d)
	}
	base := digest("n", "d", `{"type":"object","maximum":9007199254740993}`)
	if other := digest("n", "d", ` {"maximum":9007199254740993, "type":"object"}`); other != base {
		t.Error("the order of keys or spaces changes the digest")
	}
	for what, other := range map[string]string{
		"name":          digest("m", "d", `{"type":"object","maximum":9007199254740993}`),
		"description":   digest("n", "e", `{"type":"object","maximum":9007199254740993}`),
		"a digit":       digest("n", "d", `{"type":"object","maximum":9007199254740992}`),
		"a new keyword": digest("n", "d", `{"type":"object","maximum":9007199254740993,"title":"x"}`),
	} {
		if other == base {
			t.Errorf("%s does not change the digest", what)
		}
	}
}
