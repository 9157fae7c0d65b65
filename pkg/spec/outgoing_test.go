package spec

import (
	"strings"
	"testing"
	"time"
)

const outgoingTool = `apiVersion: holdfast/v1
kind: Tool
metadata: {name: t}
spec:
  description: Does it.
  input: {type: object}
  effect: write
  http: {url: "https://api.example.com/"}
`

func TestParse_Outgoing(t *testing.T) {
	t.Parallel()
	docs, err := Parse("t.yaml", []byte(outgoingTool+`  outputSchema: {type: object, required: [id]}
  limits: {rate: 100/m, concurrency: 3}
  allowHosts: [billing.internal, "10.1.2.3:8080", "[fd00::1]:443", "[fd00::1]"]
  tls: {ca: {file: /ca.pem}, serverName: api.internal, minVersion: "1.3", cert: {env: CERT}, key: {env: KEY}}
`))
	if err != nil {
		t.Fatal(err)
	}
	tool := docs[0].Tool
	if raw, err := tool.Limits.Rate.MarshalJSON(); err != nil || string(raw) != `"100/m"` {
		t.Errorf("the rate is written as %s, %v", raw, err)
	}
	if tool.Limits.Rate != (Rate{100, time.Minute}) || tool.Limits.Rate.Every() != 600*time.Millisecond || tool.Limits.Concurrency != 3 {
		t.Errorf("limits %+v", tool.Limits)
	}
	if tool.OutputSchema == nil || len(tool.AllowHosts) != 4 || tool.TLS.Key.Env != "KEY" || tool.TLS.MinVersion != TLS13 {
		t.Errorf("read %+v, tls %+v", tool, tool.TLS)
	}
}

// What was valid before means the same and keeps its digest: nothing is added to
// a document that says nothing about it.
func TestParse_OutgoingAbsent(t *testing.T) {
	t.Parallel()
	docs, err := Parse("t.yaml", []byte(outgoingTool))
	if err != nil {
		t.Fatal(err)
	}
	raw := docs[0].Body
	for _, field := range []string{"outputSchema", "limits", "allowHosts", "tls"} {
		if strings.Contains(string(raw), field) {
			t.Errorf("%s is in %s", field, raw)
		}
	}
}

func TestParse_OutgoingBadValues(t *testing.T) {
	t.Parallel()
	for lines, want := range map[string]string{
		"  limits: {rate: 10}":                             "spec.limits.rate: expected text",
		"  limits: {rate: 10/d}":                           `"10/d" is not a rate`,
		"  limits: {rate: 0/s}":                            `"0/s" is not a rate`,
		"  limits: {rate: +1/s}":                           `"+1/s" is not a rate`,
		"  limits: {rate: 100001/s}":                       "is not a rate",
		"  limits: {concurrency: -1}":                      "spec.limits.concurrency",
		"  limits: {}":                                     "limits nothing",
		"  limits: {rates: 1/s}":                           `did you mean "rate"`,
		"  tls: {}":                                        "says nothing",
		"  tls: {minVersion: \"1.1\"}":                     "spec.tls.minVersion",
		"  tls: {minVersion: 1.3}":                         "quote it",
		"  tls: {cert: {env: C}}":                          "belong together",
		"  tls: {ca: \"-----BEGIN CERTIFICATE-----\"}":     "never holds the secret itself",
		"  tls: {insecureSkipVerify: true}":                "unknown field",
		"  tls: {serverName: \"*.example.com\"}":           "is not a host name",
		"  allowHosts: [\"*.internal\"]":                   "is not a host",
		"  allowHosts: [\"http://a\"]":                     "is not a host",
		"  allowHosts: [\"a:0\"]":                          "is not a host",
		"  allowHosts: [\"a:\"]":                           "is not a host",
		"  allowHosts: [\"fd00::1\"]":                      "is not a host",
		"  allowHosts: [\"[fe80::1%eth0]\"]":               "is not a host",
		"  allowHosts: [\"10.0.0.0/8\"]":                   "is not a host",
		"  outputSchema: {type: nothing}":                  "spec.outputSchema",
		"  outputSchema: {$ref: \"https://example.com/\"}": "outside this schema",
	} {
		_, err := Parse("t.yaml", []byte(outgoingTool+lines+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one that says %q", lines, err, want)
		}
	}
	for name, doc := range map[string]string{
		"belongs into the MCPServer": strings.Replace(outgoingTool, `http: {url: "https://api.example.com/"}`,
			`mcp: {server: s, tool: x, schema: "sha256:`+strings.Repeat("0", 64)+`"}`, 1) + "  tls: {serverName: x}\n",
		"is for tools with http": strings.Replace(strings.Replace(outgoingTool, `http: {url: "https://api.example.com/"}`, "builtin: fetch_page", 1),
			"write", "read", 1) + "  tls: {serverName: x}\n",
		"are for servers with http": "apiVersion: holdfast/v1\nkind: MCPServer\nmetadata: {name: s}\nspec: {stdio: {command: node}, allowHosts: [a]}\n",
	} {
		if _, err := Parse("t.yaml", []byte(doc)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v, want one that says %q", err, name)
		}
	}
}
