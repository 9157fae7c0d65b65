package tools_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

const publicURL = "https://door.test/base"

// Tools whose results are posted later, at a place that says so in a header.
var replyYAML = func() string {
	var b strings.Builder
	for name, more := range map[string]string{
		"later":         `, callback: {within: 1h, failed: "!body.ok", result: "${body.paid}"}}`,
		"later_ask":     `, callback: {within: 1s}}`,
		"later_fail":    `, callback: {within: 1s}}, inDoubt: fail`,
		"later_probe":   `, callback: {within: 1s}}, inDoubt: {probe: {http: {url: "${env.HOLDFAST_TOOL_OUTSIDE}/seen/${args.n}"}, happened: "answer.status == 200 && answer.body.count > 0", after: 100ms, result: "probed"}}`,
		"later_key":     `, callback: {within: 1h}}, inDoubt: retry`,
		"later_briefly": `, callback: {within: 1s}}, inDoubt: retry`,
	} {
		fmt.Fprintf(&b, `
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: %s}
spec: {description: takes its time, input: {type: object}, effect: write, timeout: 5s, http: {url: "${env.HOLDFAST_TOOL_OUTSIDE}/later", headers: {X-Callback: "${callback.url}"}%s}
`, name, more)
	}
	return b.String()
}()

// accept acts once per key and says that the result follows; args.mode "500"
// says it with an error.
func (o *outside) accept(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	key := r.Header.Get("Idempotency-Key")
	o.mu.Lock()
	o.seen[string(body)]++
	if o.known[key] == nil {
		o.done[string(body)]++
		o.known[key] = []byte(`{}`)
	}
	o.later[string(body)] = append(o.later[string(body)], r.Header.Get("X-Callback"))
	gate := o.gate[string(body)]
	o.mu.Unlock()
	if gate != nil {
		<-gate
	}
	if strings.Contains(string(body), "500") {
		rw.WriteHeader(http.StatusInternalServerError)
		return
	}
	if strings.Contains(string(body), "at once") {
		_, _ = io.WriteString(rw, `{"first":1}`)
		return
	}
	rw.WriteHeader(http.StatusAccepted)
	_, _ = io.WriteString(rw, r.Header.Get("X-Callback")) // an echo of the secret
}

const probeEndYAML = `
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: pay_probe_fail}
spec:
  description: pays, and nobody is asked in the end
  input: {type: object}
  effect: write
  timeout: 2s
  http: {method: POST, url: "${env.HOLDFAST_TOOL_OUTSIDE}/plain"}
  inDoubt:
    probe:
      http: {url: "${env.HOLDFAST_TOOL_OUTSIDE}/seen/${args.n}"}
      happened: answer.status == 200 && answer.body.count > 0
      after: 100ms
      every: 100ms
      giveUpAfter: 300ms
      then: fail
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: gated_probe}
spec:
  description: pays with a yes, and can be asked
  input: {type: object}
  effect: write
  approval: always
  timeout: 2s
  http: {method: POST, url: "${env.HOLDFAST_TOOL_OUTSIDE}/plain"}
  inDoubt:
    probe:
      http: {url: "${env.HOLDFAST_TOOL_OUTSIDE}/seen/${args.n}"}
      happened: answer.status == 200
      notHappened: answer.status == 404
      after: 100ms
`
