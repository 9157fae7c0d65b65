package bench

import (
	"strings"
)

// SecretEnv is the environment variable with the secret of all webhooks.
const SecretEnv = "HOLDFAST_WEBHOOK_BENCH_SECRET"

// Names of the webhooks that senders post to.
const (
	intakeHook = "bench"
	turnsHook  = "turns"
	readsHook  = "reads"
	flowHook   = "fan"
	waitHook   = "wait"
	wakeHook   = "wake"
)

// IntakeHook is the webhook whose starts Config.Insert stores.
const IntakeHook = intakeHook

const definitionsText = `
apiVersion: holdfast/v1
kind: Model
metadata: {name: bench}
spec: {provider: anthropic, model: bench, apiKey: {env: ANTHROPIC_API_KEY}, baseURL: {env: ANTHROPIC_BASE_URL}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: act}
spec:
  description: Changes something at another system.
  effect: write
  input: {type: object, properties: {n: {type: integer}}, additionalProperties: false}
  http: {method: POST, url: "TOOLS/tool", body: "${args}"}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: look}
spec:
  description: Reads something at another system.
  effect: read
  input: {type: object, properties: {n: {type: integer}}, additionalProperties: false}
  http: {method: GET, url: "TOOLS/tool", query: {n: "${args.n}"}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: bench}
spec: {model: bench, instructions: Never asked., input: {type: object, required: [type]}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: writer}
spec: {model: bench, instructions: Act as often as you are told., tools: [act], input: {type: object}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: reader}
spec: {model: bench, instructions: Look as often as you are told., tools: [look], input: {type: object}}
---
apiVersion: holdfast/v1
kind: Webhook
metadata: {name: bench}
spec: {provider: standard, secrets: [{env: SECRET}], agent: bench}
---
apiVersion: holdfast/v1
kind: Webhook
metadata: {name: turns}
spec: {provider: standard, secrets: [{env: SECRET}], agent: writer}
---
apiVersion: holdfast/v1
kind: Webhook
metadata: {name: reads}
spec: {provider: standard, secrets: [{env: SECRET}], agent: reader}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: child}
spec: {model: bench, instructions: Say that you are done., input: {type: object}}
---
apiVersion: holdfast/v1
kind: Flow
metadata: {name: fan}
spec:
  input: {type: object, required: [items]}
  steps:
    - {name: each, agent: child, forEach: "${input.items}", limit: 1000, input: {n: "${item.n}"}}
---
apiVersion: holdfast/v1
kind: Webhook
metadata: {name: fan}
spec: {provider: standard, secrets: [{env: SECRET}], flow: fan}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: await}
spec:
  description: Waits for another system.
  effect: read
  input: {type: object, required: [key], properties: {key: {type: string}}}
  signal: {name: bench, key: "${args.key}"}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: waiter}
spec: {model: bench, instructions: Wait until you are told., tools: [await], input: {type: object}}
---
apiVersion: holdfast/v1
kind: Webhook
metadata: {name: wait}
spec: {provider: standard, secrets: [{env: SECRET}], agent: waiter}
---
apiVersion: holdfast/v1
kind: Webhook
metadata: {name: wake}
spec: {provider: standard, secrets: [{env: SECRET}], signal: {name: bench, key: "${body.key}"}}
`

// definitions are what all workloads run; tools is where their tools are asked.
func definitions(tools string) string {
	return strings.NewReplacer("TOOLS", tools, "SECRET", SecretEnv).Replace(definitionsText)
}
