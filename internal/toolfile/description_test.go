package toolfile

import (
	"fmt"
	"strings"
	"testing"
)

const head = `openapi: 3.0.3
servers: [{url: "https://a.example"}]
`

// What an operation needs and cannot have leaves it out, and no other: a tool
// without one of its parameters would be another tool.
func TestFromOpenAPI_LeftOut(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ lines, wantReason string }{
		"a parameter that is not there":   {`/x: {get: {operationId: x, parameters: [{$ref: "#/components/parameters/No"}]}}`, `parameter 1: it refers to "#/components/parameters/No", which is not there`},
		"a parameter in another file":     {`/x: {get: {operationId: x, parameters: [{$ref: "other.yaml#/x"}]}}`, `parameter 1: it refers to "other.yaml#/x", and other files are not read`},
		"a parameter that is itself":      {`/x: {parameters: [{$ref: "#/paths/~1x/parameters/0"}], get: {operationId: x}}`, "parameter 1 refers to itself"},
		"a parameter without a name":      {`/x: {get: {operationId: x, parameters: [17]}}`, "parameter 1 is not an object"},
		"a parameter that goes nowhere":   {`/x: {get: {operationId: x, parameters: [{name: q}]}}`, "parameter 1 does not say its name and where it is sent"},
		"parameters that are no list":     {`/x: {get: {operationId: x, parameters: {name: q}}}`, "parameters is not a list"},
		"a body that is not there":        {`/x: {post: {operationId: x, requestBody: {$ref: "#/components/requestBodies/No"}}}`, `its body: it refers to "#/components/requestBodies/No", which is not there`},
		"a body's schema in another file": {`/x: {post: {operationId: x, requestBody: {content: {application/json: {schema: {$ref: "https://b.example/s.json"}}}}}}`, `body: it refers to "https://b.example/s.json", and other files are not read`},
		"a schema deep in another file":   {`/x: {get: {operationId: x, parameters: [{name: q, in: query, schema: {type: array, items: {$ref: "s.yaml"}}}]}}`, `parameter q: it refers to "s.yaml", and other files are not read`},
		"a schema without an end":         {`/x: {get: {operationId: x, parameters: [{name: q, in: query, schema: &s {type: object, properties: {a: *s}}}]}}`, "parameter q: its schema is nested too deep"},
		"a path in another file":          {`/x: {$ref: "path.yaml"}`, `the path: it refers to "path.yaml", and other files are not read`},
		"a path that is none":             {`x: {get: {operationId: x}}`, `its path "x" does not begin with /`},
		"an operation that is text":       {`/x: {get: text}`, "the operation is not an object"},
		"an operation in another file":    {`/x: {get: {$ref: "get.yaml"}}`, `the operation: it refers to "get.yaml", and other files are not read`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			documents, skipped, err := FromOpenAPI([]byte(head+"paths:\n  "+tc.lines+"\n  /other: {get: {operationId: other}}\n"), OpenAPIOptions{})
			if err != nil || len(documents) != 1 || documents[0].Name != "other" {
				t.Fatalf("%d documents, %v; want the other operation's", len(documents), err)
			}
			if len(skipped) != 1 || skipped[0].Reason != tc.wantReason {
				t.Errorf("left out: %v; want %s", skipped, tc.wantReason)
			}
		})
	}
}

func TestFromOpenAPI_NotRead(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, want string }{
		"nothing":          {"", "it is empty"},
		"a list":           {"[]", "it is not an object"},
		"no version":       {"info: {title: x}", "does not say its version"},
		"another kind":     {"asyncapi: 2.0.0", `of version "2.0.0"`},
		"a syntax error":   {"openapi: 3.0.0\npaths: {}\n  x: y\n", "line 2"},
		"JSON cut short":   {`{"openapi":"3.0.0","paths":{`, "line 1"},
		"a key twice":      {"openapi: 3.0.0\npaths:\n  /a: {}\n  /a: {}\n", `line 4: the key "/a" appears twice`},
		"paths are a list": {"openapi: 3.0.0\npaths: [1]\n", "has no paths"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			documents, skipped, err := FromOpenAPI([]byte(tc.text), OpenAPIOptions{})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%d documents, %v skipped, error %v; want one with %q", len(documents), skipped, err, tc.want)
			}
		})
	}
}

func TestFromOpenAPI_Read(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, want string }{
		"what << takes over": {head + `x-a: &a {summary: "Shared.", description: no}
x-s: &s {type: string, maxLength: 5}
paths: {/x: {get: {<<: *a, description: Own., operationId: x, parameters: [{name: q, in: query, schema: {<<: *s, maxLength: 6}}]}}}
`, `  description: "Shared.\n\nOwn."
  input:
    type: "object"
    properties:
      q:
        type: "string"
        maxLength: 6
`},
		"references through others and into lists": {head + `components:
  parameters:
    A: {$ref: "#/components/parameters/B"}
    B: {$ref: "#/paths/~1y/get/parameters/0"}
  securitySchemes:
    r: {$ref: "#/components/securitySchemes/k"}
    k: {type: apiKey, in: header, name: X-Key}
paths:
  /x: {get: {operationId: x, parameters: [{$ref: "#/components/parameters/A"}], security: [{r: []}]}}
  /y: {get: {operationId: y, parameters: [{name: q, in: query, schema: {type: integer}}]}}
`, `    properties:
      q:
        type: "integer"
    additionalProperties: false
  effect: "read"
  http:
    method: "GET"
    url: "https://a.example/x"
    query:
      q: "${args.q}"
    headers:
      X-Key: "${secret.r}"
`},
		"a path's own server": {`openapi: 3.1.0
servers: [{url: /v1}]
paths: {/x: {servers: [{url: "https://{n}.example", variables: {n: {default: b}}}], get: {operationId: x}}}
`, `url: "https://b.example/x"`},
		"characters that JSON spells as pairs": {"\ufeff" + `{"openapi":"3.1.1","servers":[{"url":"https:\/\/a.example"}],"paths":{"/x":{"get":{"operationId":"x","summary":"\ud83d\ude00 \u00e9"}}}}`, `description: "😀 é"`},
		"braces that are no JSON":              {`{openapi: 3.1.0, servers: [{url: "https://a.example"}], paths: {/x: {get: {operationId: x}}}}`, `url: "https://a.example/x"`},
		"numbers and words": {head + `paths: {/x: {get: {operationId: x, parameters: [{name: q, in: query, schema: {enum: [yes, 0x1F, 017, .nan, 2020-01-01, ~, True, 1.50, !!str 6, 123456789012345678901234567890]}}]}}}
`, `enum: ["yes","0x1F","017",".nan","2020-01-01",null,true,1.5,"6",123456789012345678901234567890]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			documents, skipped, err := FromOpenAPI([]byte(tc.text), OpenAPIOptions{Include: []string{"x"}})
			if err != nil || len(documents) != 1 {
				t.Fatalf("%d documents, %v, %v", len(documents), skipped, err)
			}
			if got := text(t, documents, skipped); !strings.Contains(got, tc.want) {
				t.Errorf("got:\n%s\nwant in it:\n%s", got, tc.want)
			}
		})
	}
}

// A few lines of aliases stand for billions of values.
func TestFromOpenAPI_ManyAliases(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(head + "x0: &a0 {type: object}\n")
	for i := 1; i <= 10; i++ {
		fmt.Fprintf(&b, "x%d: &a%d {<<: [*a%d, *a%d], properties: {", i, i, i-1, i-1)
		for k := range 10 {
			fmt.Fprintf(&b, "k%d: *a%d, ", k, i-1)
		}
		b.WriteString("}}\n")
	}
	b.WriteString("paths: {/x: {get: {operationId: x, parameters: [{name: q, in: query, schema: *a10}]}}}\n")
	documents, skipped, err := FromOpenAPI([]byte(b.String()), OpenAPIOptions{})
	if err != nil || len(documents) != 0 || len(skipped) != 1 || !strings.Contains(skipped[0].Reason, "more than 100000 values") {
		t.Errorf("%d documents, left out %v, %v", len(documents), skipped, err)
	}
}

// Name of a skipped operation without an id, so that a person finds it.
func TestFromOpenAPI_NamesThePlace(t *testing.T) {
	t.Parallel()
	_, skipped, err := FromOpenAPI([]byte(head+"paths: {/x: {post: {requestBody: {content: {text/plain: {}}}}}}\n"), OpenAPIOptions{})
	if err != nil || len(skipped) != 1 || skipped[0].Name != "POST /x" || skipped[0].Reason != "its body is text/plain; only JSON can be sent" {
		t.Errorf("left out %v, %v", skipped, err)
	}
}
