package main

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/mcptest"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/internal/scriptmodel"
	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// An MCP server from npm is defined, its tools are imported and applied, tried
// by hand and used by an agent.
func TestTools_FromAnMCPServerToAnAnswer(t *testing.T) {
	t.Parallel()
	servers := mcptest.Install(t)
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	note := filepath.Join(folder, "note.txt")
	if err := os.WriteFile(note, []byte("the price is 17"), 0o600); err != nil {
		t.Fatal(err)
	}
	model := httptest.NewServer(scriptmodel.New(scriptmodel.Config{Script: func(r scriptmodel.Request) (scriptmodel.Answer, error) {
		if r.Turn() == 0 {
			return scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Call("files_read_text_file", map[string]any{"path": note})}}, nil
		}
		last := r.Messages[len(r.Messages)-1]
		return scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Text("it says: " + string(last.Blocks[0].Content))}}, nil
	}}))
	t.Cleanup(model.Close)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	server := write("server.yaml", fmt.Sprintf(`apiVersion: holdfast/v1
kind: MCPServer
metadata: {name: files}
spec:
  stdio: {command: %q, args: [%q, %q]}
  defaults: {effect: read, approval: never}
  deny: [edit_file, move_file, create_directory]
`, servers.Node, servers.Filesystem, folder))
	agent := write("agent.yaml", `apiVersion: holdfast/v1
kind: Model
metadata: {name: scripted}
spec: {provider: anthropic, model: scripted, baseURL: {env: SCRIPT_MODEL_URL}, apiKey: {env: SCRIPT_MODEL_KEY}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: reader}
spec: {model: scripted, instructions: Read the note., tools: [files_read_text_file]}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: gated}
spec: {description: d, input: {type: object}, effect: write, approval: always, http: {url: "http://127.0.0.1:1/"}}
`)
	address := free(t)
	start(t, []string{"SCRIPT_MODEL_URL=" + model.URL, "SCRIPT_MODEL_KEY=key"}, devReady, "dev", "--listen", address, "--data-dir", dataDir(t),
		"--database-url", pgtest.New(t).URL.Reveal(), "--egress-allow", "127.0.0.0/8", "--tools-mcp-commands", servers.Node)
	env := []string{"HOLDFAST_SERVER=http://" + address}
	cli := func(want int, args ...string) string {
		t.Helper()
		text, code := output(t, env, args...)
		if code != want {
			t.Fatalf("holdfast %s: exit %d, want %d\n%s", strings.Join(args, " "), code, want, text)
		}
		return text
	}
	holds := func(text string, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in:\n%s", want, text)
			}
		}
	}
	tools := filepath.Join(dir, "tools")
	holds(cli(exitNotFound, "tools", "import", "--mcp", "files", "-o", tools), "no MCP server")
	cli(exitOK, "apply", "-f", server)
	holds(cli(exitOK, "tools", "import", "--mcp", "files", "-o", tools), "files_read_text_file.yaml", "edit_file: the server's definition does not allow it")
	holds(cli(exitFailure, "tools", "import", "--mcp", "files", "-o", tools), "--force")
	// What writes is said to write: the file is the operator's to change.
	path := filepath.Join(tools, "files_write_file.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), `effect: "read"`, `effect: "idempotent"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	cli(exitOK, "apply", "-f", tools, "-f", agent)
	holds(cli(exitOK, "tools", "list"), "files_read_text_file", "mcp", "idempotent", "sha256:")

	holds(cli(exitOK, "tools", "test", "files_read_text_file", "--args", fmt.Sprintf(`{"path":%q}`, note)), "the price is 17", "succeeded")
	holds(cli(exitFailure, "tools", "test", "files_read_text_file", "--args", `{}`), "path")
	holds(cli(exitFailure, "tools", "test", "files_read_text_file", "--args", `{"path":"/etc/passwd"}`), "tool_error")
	kept := fmt.Sprintf(`{"path":%q,"content":"kept"}`, filepath.Join(folder, "kept.txt"))
	holds(cli(exitFailure, "tools", "test", "files_write_file", "--args", kept), "--yes-act")
	if _, err := os.Stat(filepath.Join(folder, "kept.txt")); err == nil {
		t.Error("a test without --yes-act has written")
	}
	holds(cli(exitOK, "tools", "test", "files_write_file", "--args", kept, "--yes-act"), "succeeded", "e-")
	holds(cli(exitOK, "effects", "list", "--tool", "files_write_file"), "succeeded")

	holds(cli(exitFailure, "tools", "test", "gated", "--yes-act"), "only a run can ask")
	holds(cli(exitNotFound, "tools", "test", "nothing"), "tools list")

	api := remote(t, "http://"+address, "")
	begun, err := api.Start(t.Context(), client.StartRequest{Agent: "reader", Input: json.RawMessage(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	var run client.Run
	await(t, "the run to end", func() bool {
		run, err = api.Run(t.Context(), begun.RunID)
		return err == nil && !run.EndedAt.IsZero()
	})
	if run.Status != events.StatusCompleted || !strings.Contains(string(run.Output), "the price is 17") {
		t.Errorf("run %s with %s %+v", run.Status, run.Output, run.Error)
	}
}
