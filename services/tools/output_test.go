package tools_test

import (
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

// outputYAML has tools whose answers are held to a schema: the outside answers
// with a receipt and an amount of sixteen digits.
const outputYAML = `
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: read_shaped}
spec:
  description: reads
  input: {type: object}
  effect: read
  timeout: 2s
  outputSchema: {type: object, required: [receipt], properties: {amount: {const: 9007199254740993}}}
  http: {url: "${env.HOLDFAST_TOOL_OUTSIDE}/look/${args.what}"}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: read_misshaped}
spec:
  description: reads
  input: {type: object}
  effect: read
  timeout: 2s
  outputSchema: {type: object, required: [id]}
  http: {url: "${env.HOLDFAST_TOOL_OUTSIDE}/look/${args.what}"}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: pay_misshaped}
spec:
  description: pays
  input: {type: object}
  effect: write
  timeout: 2s
  outputSchema: {type: object, properties: {number: {type: integer}}}
  http: {url: "${env.HOLDFAST_TOOL_OUTSIDE}/plain", output: {number: "${body.receipt}"}}
`

// An answer of another shape is no answer to a read. An act has happened all the
// same: it is neither failed nor in doubt, and the model is told.
func TestOutputSchema(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	good, bad, pay := w.call("read_shaped", `{"what":"good"}`), w.call("read_misshaped", `{"what":"bad"}`), w.call("pay_misshaped", `{"n":1}`)
	for _, c := range []events.CallTool{good, bad, pay} {
		w.send(c, "")
	}
	w.answer(good.CallID, events.CallSucceeded) // every digit of the amount counts
	a := w.answer(bad.CallID, events.CallFailed)
	if a.Error == nil || a.Error.Code != tools.CodeOutputInvalid || !strings.Contains(a.Error.Message, "id") || len(a.Result) > 0 {
		t.Errorf("a read of another shape is answered with %+v, %s", a.Error, a.Result)
	}
	a = w.answer(pay.CallID, events.CallSucceeded)
	if text := string(a.Result); !strings.Contains(text, "it happened, but the answer has another shape") || !strings.Contains(text, "$.number") || !strings.Contains(text, `"answer":{"number":"r-`) {
		t.Errorf("an act of another shape returns %s", text)
	}
	if state, epoch := w.effect(pay); state != tools.EffectSucceeded || epoch != 1 {
		t.Errorf("its effect is %s in epoch %d", state, epoch)
	}
	w.idle()
	w.wantEffects(pay, 1)
	if n := w.outside.arrivals.Load(); n != 3 {
		t.Errorf("3 calls made %d requests: a read of another shape was repeated", n)
	}
}
