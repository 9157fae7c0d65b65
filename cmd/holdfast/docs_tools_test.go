package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/spec"
)

// TestDocs_ToolSamples reads every definition in docs/tools.md as apply would.
// Each section that makes a tool has one.
func TestDocs_ToolSamples(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/tools.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	blocks := strings.Split(string(text), "```yaml\n")[1:]
	for i, b := range blocks {
		sample, _, _ := strings.Cut(b, "```")
		docs, err := spec.Parse(fmt.Sprintf("docs/tools.md sample %d", i+1), []byte(sample))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, d := range docs {
			if d.Tool != nil && d.Tool.InDoubt.Probe != nil {
				seen["probe"] = true
			}
			switch {
			case d.MCPServer != nil:
				seen["server"] = true
			case d.Tool == nil:
				t.Errorf("sample %d is a %s", i+1, d.Kind)
			case d.Tool.HTTP != nil:
				seen["http"] = true
			case d.Tool.MCP != nil:
				seen["mcp"] = true
			case d.Tool.NATS != nil:
				seen["nats"] = true
			case d.Tool.Builtin != "":
				seen["builtin"] = true
			}
		}
	}
	if len(seen) != 6 {
		t.Errorf("samples of %v, want one of each kind", seen)
	}
}
