package spec

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func callbackTool(effect, request, callback string) []byte {
	return fmt.Appendf(nil, `apiVersion: holdfast/v1
kind: Tool
metadata: {name: t}
spec: {description: d, input: {type: object}, effect: %s, http: {url: "http://x/", %s callback: {%s}}}
`, effect, request, callback)
}

const carries = `headers: {X-To: "${callback.url}"},`

func TestHTTPCallback(t *testing.T) {
	t.Parallel()
	docs, err := Parse("t.yaml", callbackTool("write", `body: {to: "${callback.url}"},`, `accepted: "status == 200", failed: "body.error != ''", result: "${body.x}", secrets: [{env: HOLDFAST_SECRET_A}], signature: {header: X-Sum, prefix: "v=", encoding: base64, algorithm: sha512}`))
	if err != nil {
		t.Fatal(err)
	}
	again, err := DecodeTool(docs[0].Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*HTTPCallback{docs[0].Tool.HTTP.Callback, again.HTTP.Callback} {
		if c.Within.Std() != time.Hour || c.Accepted == nil || c.Failed == nil || c.Result == nil || len(c.Secrets) != 1 || c.Signature.Algorithm != "sha512" {
			t.Errorf("callback %+v", c)
		}
	}
}

func TestHTTPCallback_Refuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ effect, request, callback, want string }{
		"nothing carries the address":   {"write", "", "", "write ${callback.url} in a header or in the body"},
		"a read":                        {"read", carries, "", "a read leaves nothing that could wait"},
		"another member":                {"write", `headers: {X-To: "${callback.token}"},`, "", "there is only ${callback.url}"},
		"the address in the query":      {"write", carries + ` query: {to: "${callback.url}"},`, "", "there is no callback here"},
		"too long":                      {"write", carries, "within: 721h", "within"},
		"too short":                     {"write", carries, "within: 10ms", "within"},
		"a condition over what is not":  {"write", carries, `failed: "status == 200"`, `there is no "status" here`},
		"a result over what is not":     {"write", carries, `result: "${args.x}"`, "there is no args here"},
		"a signature without a secret":  {"write", carries, `signature: {header: X}`, "to check signatures with"},
		"an unknown encoding":           {"write", carries, `secrets: [{env: HOLDFAST_SECRET_A}], signature: {encoding: base32}`, "encoding"},
		"a signed time":                 {"write", carries, `secrets: [{env: HOLDFAST_SECRET_A}], signature: {timestampHeader: X-At}`, "the body alone is signed"},
		"a secret as text":              {"write", carries, `secrets: [hush]`, "expected {env: NAME}"},
		"an unknown field":              {"write", carries, `wihtin: 1h`, "within"},
		"an address without a callback": {"write", carries + ` retry: {attempts: 1}} #`, "", "there is no callback here"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := callbackTool(tc.effect, tc.request, tc.callback)
			if strings.Contains(tc.request, "#") {
				text = []byte(strings.ReplaceAll(string(text), "retry: {attempts: 1}} #", "retry: {attempts: 1}}} #"))
			}
			if _, err := Parse("t.yaml", text); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q in it", err, tc.want)
			}
		})
	}
}
