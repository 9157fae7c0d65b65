package tools_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/tools"
	"github.com/holdfast-run/holdfast/services/tools/kind"
)

const toolYAML = `
apiVersion: holdfast/v1
kind: Tool
metadata: {name: pay}
spec:
  description: pays, at a place that knows no keys
  input: {type: object}
  effect: write
  timeout: 2s
  http: {method: POST, url: "${env.HOLDFAST_TOOL_OUTSIDE}/plain"}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: pay_slow}
spec:
  description: pays, and takes its time
  input: {type: object}
  effect: write
  timeout: 60s
  http: {method: POST, url: "${env.HOLDFAST_TOOL_OUTSIDE}/plain"}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: pay_silent}
spec:
  description: pays, and nobody is asked
  input: {type: object}
  effect: write
  inDoubt: fail
  http: {method: POST, url: "${env.HOLDFAST_TOOL_OUTSIDE}/plain"}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: pay_key}
spec:
  description: pays, at a place that honours keys
  input: {type: object}
  effect: write
  inDoubt: retry
  timeout: 2s
  http: {method: POST, url: "${env.HOLDFAST_TOOL_OUTSIDE}/honour"}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: refund}
spec:
  description: refunds a charge once
  input: {type: object}
  effect: write
  key: "refund/${args.charge}"
  http: {method: POST, url: "${env.HOLDFAST_TOOL_OUTSIDE}/plain"}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: refund_otherwise}
spec:
  description: refunds a charge once, with another tool
  input: {type: object}
  effect: write
  key: "refund/${args.charge}"
  http: {method: POST, url: "${env.HOLDFAST_TOOL_OUTSIDE}/plain"}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: gated}
spec:
  description: needs a yes
  input: {type: object}
  effect: write
  approval: always
  http: {method: POST, url: "${env.HOLDFAST_TOOL_OUTSIDE}/plain"}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: look}
spec:
  description: reads
  input: {type: object}
  effect: read
  timeout: 2s
  http: {url: "${env.HOLDFAST_TOOL_OUTSIDE}/look/${args.what}"}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: draw}
spec:
  description: reads with a body
  input: {type: object}
  effect: read
  timeout: 2s
  http: {method: POST, url: "${env.HOLDFAST_TOOL_OUTSIDE}/plain"}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: secretive}
spec:
  description: sends a secret and has it echoed
  input: {type: object}
  effect: write
  inDoubt: retry
  http:
    method: POST
    url: "${env.HOLDFAST_TOOL_OUTSIDE}/echo"
    headers: {Authorization: "Bearer ${secret.token}"}
    secrets: {token: {env: HOLDFAST_SECRET_CANARY}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: pay_probe}
spec:
  description: pays, at a place that knows no keys but can be asked
  input: {type: object}
  effect: write
  timeout: 2s
  http: {method: POST, url: "${env.HOLDFAST_TOOL_OUTSIDE}/plain"}
  inDoubt:
    probe:
      http: {url: "${env.HOLDFAST_TOOL_OUTSIDE}/seen/${args.what}", headers: {X-Key: "${args.key}"}}
      args: {what: "${args.n}", key: "${key}"}
      happened: answer.status == 200 && answer.body.count > 0
      notHappened: answer.status == 404
      result: {found: "${answer.body.count}"}
      after: 100ms
      every: 200ms
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: pay_probe_briefly}
spec:
  description: pays, and is soon given up
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
      giveUpAfter: 500ms
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: save}
spec: {builtin: artifact_save}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: recall}
spec: {builtin: artifact_read}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: gone}
spec:
  description: nobody listens there
  input: {type: object}
  effect: write
  http: {method: POST, url: "http://127.0.0.1:1/"}
`

// definitions is what the catalog would hold.
type definitions struct {
	byDigest map[events.Digest]*spec.Tool
	byName   map[string]events.Digest
	asking   map[events.Digest]spec.Asking // of agents and flows
}

var _ tools.Definitions = definitions{}

func (d definitions) Tool(_ context.Context, _ string, digest events.Digest) (*spec.Tool, error) {
	if t, ok := d.byDigest[digest]; ok {
		return t, nil
	}
	return nil, tools.ErrNoDefinition
}

func (d definitions) Asking(_ context.Context, _ string, ref events.Ref) (spec.Asking, error) {
	if a, ok := d.asking[ref.Digest]; ok {
		return a, nil
	}
	return spec.Asking{}, nil
}

var defs = sync.OnceValue(func() definitions {
	docs, err := spec.Parse("tools.yaml", []byte(toolYAML+probeEndYAML+replyYAML+matrixYAML()+outputYAML+limitYAML+circuitYAML))
	if err != nil {
		panic(err)
	}
	d := definitions{map[events.Digest]*spec.Tool{}, map[string]events.Digest{}, map[events.Digest]spec.Asking{"sha256:strict": strict}}
	for _, doc := range docs {
		d.byDigest[doc.Digest], d.byName[doc.Name] = doc.Tool, doc.Digest
	}
	return d
})

func callOf(t testing.TB, run events.RunID, seq int, tool, args string) events.CallTool {
	t.Helper()
	canonical, err := events.Canonical([]byte(args))
	if err != nil {
		t.Fatal(err)
	}
	digest, ok := defs().byName[tool]
	if !ok {
		t.Fatalf("no tool %s", tool)
	}
	id := events.NewCallID(run, int64(seq), 0)
	return events.CallTool{
		CallID: id, RunID: run, Namespace: "default", Tool: tool, ToolDigest: digest,
		Args: canonical, ArgsDigest: events.DigestOf(canonical), Key: fmt.Sprintf("%s/%d/0/%s", run, seq, tool),
	}
}

func kinds(lookup func(string) (string, bool)) []tools.Kind {
	allow, err := egress.ParseAllow([]string{"127.0.0.0/8"})
	if err != nil {
		panic(err)
	}
	return kind.All(kind.Config{Egress: egress.New(egress.Config{Allow: allow}), LookupEnv: lookup, ReadFile: os.ReadFile})
}

// withRunArtifacts adds the kind that reads artifacts from the store.
func withRunArtifacts(kinds []tools.Kind, artifacts tools.RunArtifacts) []tools.Kind {
	for _, k := range kind.All(kind.Config{Artifacts: artifacts}) {
		if k.Name() == spec.BuiltinArtifactRead {
			kinds = append(kinds, k)
		}
	}
	return kinds
}
