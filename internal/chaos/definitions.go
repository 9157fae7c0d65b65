package chaos

import "strings"

// definitions are an agent, its tools, and every way to start it.
const definitions = `apiVersion: holdfast/v1
kind: Model
metadata: {name: scripted}
spec: {provider: anthropic, model: claude-test, baseURL: "MODEL", apiKey: {env: CHAOS_KEY}, timeout: 60s}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: clerk}
spec:
  model: scripted
  instructions: Do what the job says.
  input:
    type: object
    properties: {job: {type: string}, do: {type: array, items: {type: string}}}
    required: [job, do]
  tools: [pay, send, order, ship, refund, await]
  approvals: {channel: desk}
---
apiVersion: holdfast/v1
kind: Channel
metadata: {name: desk}
spec: {webhook: {url: "WORLD/told", secrets: [{env: CHAOS_SECRET}]}}
---
apiVersion: holdfast/v1
kind: Channel
metadata: {name: heads}
spec: {webhook: {url: "WORLD/told", secrets: [{env: CHAOS_SECRET}]}}
---
# The other side honours the key.
apiVersion: holdfast/v1
kind: Tool
metadata: {name: pay}
spec:
  description: Pays.
  input: INPUT
  effect: write
  timeout: 5s
  key: "${args.night}/${args.shop}/${args.product}"
  inDoubt: retry
  http: {method: POST, url: "WORLD/shops/${args.shop}/prices", body: "${args}", idempotencyHeader: Idempotency-Key}
---
# It does not, and a person says what became of a doubt.
apiVersion: holdfast/v1
kind: Tool
metadata: {name: send}
spec:
  description: Sends.
  input: INPUT
  effect: write
  timeout: 5s
  key: "${args.night}/${args.shop}/${args.product}"
  inDoubt: ask
  http: {method: POST, url: "WORLD/shops/${args.shop}/prices", body: "${args}"}
---
# A person decides first.
apiVersion: holdfast/v1
kind: Tool
metadata: {name: order}
spec:
  description: Orders.
  input: INPUT
  effect: write
  timeout: 5s
  key: "${args.night}/${args.shop}/${args.product}"
  inDoubt: ask
  approval: always
  http: {method: POST, url: "WORLD/shops/${args.shop}/prices", body: "${args}"}
---
# The person is reminded, and others are asked, before anybody decides.
apiVersion: holdfast/v1
kind: Tool
metadata: {name: ship}
spec:
  description: Ships.
  input: INPUT
  effect: write
  timeout: 5s
  key: "${args.night}/${args.shop}/${args.product}"
  inDoubt: ask
  approval: {remind: [1h], escalate: [{after: 2h, channel: heads}]}
  http: {method: POST, url: "WORLD/shops/${args.shop}/prices", body: "${args}"}
---
# Its answer never comes; it can be looked up.
apiVersion: holdfast/v1
kind: Tool
metadata: {name: refund}
spec:
  description: Refunds.
  input: INPUT
  effect: write
  timeout: 5s
  key: "${args.night}/${args.shop}/${args.product}"
  inDoubt:
    probe:
      http: {url: "WORLD/effects", query: {key: "${args.key}"}}
      args: {key: "${args.night}/${args.shop}/${args.product}"}
      happened: answer.status == 200
      notHappened: answer.status == 404
      after: 1s
      every: 1s
  http: {method: POST, url: "WORLD/mute/${args.shop}/prices", body: "${args}"}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: await}
spec:
  description: Waits for a payment.
  input: {type: object, properties: {job: {type: string}}, required: [job]}
  effect: read
  signal: {name: paid, key: "${args.job}", timeout: 1h}
---
apiVersion: holdfast/v1
kind: Webhook
metadata: {name: jobs}
spec:
  provider: standard
  secrets: [{env: CHAOS_SECRET}]
  agent: clerk
  input: {job: "${body.job}", do: "${body.do}"}
---
apiVersion: holdfast/v1
kind: Webhook
metadata: {name: payments}
spec:
  provider: standard
  secrets: [{env: CHAOS_SECRET}]
  signal: {name: paid, key: "${body.job}", data: {paid: true}}
---
apiVersion: holdfast/v1
kind: Flow
metadata: {name: round}
spec:
  input: {type: object, properties: {jobs: {type: array, items: {type: object}}}, required: [jobs]}
  steps:
    - {name: each, agent: clerk, forEach: "${input.jobs}", limit: 2, input: {job: "${item.job}", do: "${item.do}"}}
    - {name: rest, needs: [each], sleep: {for: 1s}}
    - {name: last, needs: [rest], agent: clerk, input: {job: "${input.jobs[0].job}-last", do: [pay]}}
`

const toolInput = `{type: object, properties: {night: {type: string}, shop: {type: string}, product: {type: string}}, required: [night, shop, product]}`

// schedule fires once, as soon as the clock sees it.
const schedule = `apiVersion: holdfast/v1
kind: Schedule
metadata: {name: "NAME"}
spec: {every: 1s, maxFires: 1, agent: clerk, input: {job: "NAME", do: [pay]}}
`

func (w *world) documents() string {
	return strings.NewReplacer("MODEL", w.modelURL, "WORLD", w.url, "INPUT", toolInput).Replace(definitions)
}
