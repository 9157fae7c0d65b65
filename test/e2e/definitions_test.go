package e2e

import (
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/client"
)

// definitions are an agent that works for a shop, and every way to start it.
// Its first word of instructions is the shop's address, the rest its edition.
const definitions = `apiVersion: holdfast/v1
kind: Model
metadata: {name: scripted}
spec: {provider: anthropic, model: claude-test, baseURL: MODEL, apiKey: {env: E2E_KEY}, timeout: 60s}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: clerk}
spec:
  model: scripted
  instructions: "SHOP EDITION"
  input:
    type: object
    properties:
      job: {type: string, pattern: "^[a-z0-9-]+$"}
      do: {type: array, items: {enum: [read, order, pay, send]}}
      note: {}
    required: [job, do]
    additionalProperties: false
  tools: [read, order, pay, send]
  callback: {secrets: [{env: E2E_WEBHOOK_SECRET}], hosts: [127.0.0.1]}
---
# It answers with data.
apiVersion: holdfast/v1
kind: Agent
metadata: {name: quoter}
spec:
  model: scripted
  instructions: quote
  input: {type: object, properties: {job: {type: string}}, required: [job]}
  output: {schema: {type: object, properties: {price: {type: number}, shop: {type: string}}, required: [price, shop]}}
  callback: {secrets: [{env: E2E_WEBHOOK_SECRET}], hosts: [127.0.0.1]}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: read}
spec:
  description: Reads a page.
  input: {type: object, properties: {url: {type: string}}, required: [url]}
  effect: read
  builtin: fetch_page
---
# A person decides first, and says what became of it when nobody knows.
apiVersion: holdfast/v1
kind: Tool
metadata: {name: order}
spec:
  description: Orders.
  input: {type: object, properties: {job: {type: string}}, required: [job]}
  effect: write
  key: "order/${args.job}"
  approval: always
  http: {method: POST, url: "SHOP/acts/order", body: "${args}"}
---
# The shop honours the key.
apiVersion: holdfast/v1
kind: Tool
metadata: {name: pay}
spec:
  description: Pays.
  input: {type: object, properties: {job: {type: string}}, required: [job]}
  effect: write
  key: "pay/${args.job}"
  inDoubt: retry
  http: {method: POST, url: "SHOP/acts/pay", body: "${args}", idempotencyHeader: Idempotency-Key}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: send}
spec:
  description: Sends.
  input: {type: object, properties: {job: {type: string}}, required: [job]}
  effect: write
  key: "send/${args.job}"
  inDoubt: ask
  http: {method: POST, url: "SHOP/acts/send", body: "${args}"}
---
apiVersion: holdfast/v1
kind: Webhook
metadata: {name: jobs}
spec:
  provider: standard
  secrets: [{env: E2E_WEBHOOK_SECRET}]
  agent: clerk
  input: {job: "${body.job}", do: "${body.do}"}
  labels: {job: "${body.job}"}
---
# What a run's end is posted to.
apiVersion: holdfast/v1
kind: Webhook
metadata: {name: ends}
spec:
  provider: standard
  secrets: [{env: E2E_WEBHOOK_SECRET}]
  agent: clerk
  input: {job: "after-${body.data.labels.job}", do: []}
  labels: {after: "${body.data.run_id}"}
---
apiVersion: holdfast/v1
kind: Schedule
metadata: {name: nightly}
spec: {cron: "0 2 * * *", timeZone: America/New_York, agent: clerk, input: {job: "nightly-${schedule.date}", do: [read, order]}}
`

// apply stores the definitions for the namespace of a client.
func (d *deployment) apply(t *testing.T, api *client.Client, edition string) []client.Applied {
	t.Helper()
	text := strings.NewReplacer("MODEL", d.out.modelURL, "SHOP", d.out.shopURL, "EDITION", edition).Replace(definitions)
	applied, err := api.Apply(t.Context(), []client.Document{{File: "e2e.yaml", Text: text}})
	if err != nil {
		t.Fatal(err)
	}
	return applied
}
