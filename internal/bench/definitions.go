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
)

// IntakeHook is the webhook whose starts Config.Insert stores.
const IntakeHook = intakeHook

const definitionsText = `
apiVersion: holdfast/v1
kind: Model
metadata: {name: bench}
spec: {provider: anthropic, model: bench, apiKey: {env: ANTHROPIC_API_KEY}}
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
`

// definitions are what all workloads run; tools is where their tools are asked.
func definitions(tools string, _ Config) string {
	return strings.NewReplacer("TOOLS", tools, "SECRET", SecretEnv).Replace(definitionsText)
}
