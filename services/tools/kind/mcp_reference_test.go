package kind_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/mcptest"
	"github.com/holdfast-run/holdfast/services/tools"
)

// everything calls tools of the reference server that shows all of the protocol.
func everything(t *testing.T, b *bench) {
	t.Helper()
	out := b.once("echo", "read", `{"message":"hello"}`)
	wantOutcome(t, out, tools.Happened, "")
	if string(out.Result) != `"Echo: hello"` {
		t.Errorf("echo: %s", out.Result)
	}
	out = b.once("get-sum", "read", `{"a":2,"b":40}`)
	wantOutcome(t, out, tools.Happened, "")
	if !strings.Contains(string(out.Result), "42") {
		t.Errorf("get-sum: %s", out.Result)
	}
	out = b.once("get-sum", "read", `{"a":"two"}`)
	if out.Verdict != tools.Refused {
		t.Errorf("get-sum of text: %s %+v", out.Verdict, out.Error)
	}
	out = b.once("get-tiny-image", "read", `{}`)
	wantOutcome(t, out, tools.Happened, "")
	if !strings.Contains(string(out.Result), `"mime_type":"image/png"`) || len(out.Result) > 2000 {
		t.Errorf("get-tiny-image: %s", out.Result)
	}
	out = b.once("get-structured-content", "read", `{"location":"Chicago"}`)
	wantOutcome(t, out, tools.Happened, "")
	if !strings.HasPrefix(string(out.Result), "{") || !strings.Contains(string(out.Result), "temperature") {
		t.Errorf("get-structured-content: %s", out.Result)
	}
	wantOutcome(t, b.call(b.imported("trigger-long-running-operation", "write"), `{"duration":30,"steps":30}`, 500*time.Millisecond), tools.Ambiguous, "timeout")
	wantOutcome(t, b.once("echo", "read", `{"message":"again"}`), tools.Happened, "")
}

func TestMCP_ReferenceEverythingOverStdio(t *testing.T) {
	t.Parallel()
	s := mcptest.Install(t)
	everything(t, newBench(t, fmt.Sprintf("  stdio: {command: %q, args: [%q, stdio]}\n", s.Node, s.Everything)))
}

func TestMCP_ReferenceEverythingOverHTTP(t *testing.T) {
	t.Parallel()
	s := mcptest.Install(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	// Node 18, which Debian 12 has, has no global crypto, which this server wants.
	const global = `data:text/javascript,import{webcrypto}from"node:crypto";if(!globalThis.crypto)globalThis.crypto=webcrypto`
	server := exec.Command(s.Node, "--import", global, s.Everything, "streamableHttp")
	server.Env = append(os.Environ(), "PORT="+port)
	said, err := server.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill() // it may have ended
		_ = server.Wait()
	})
	lines := bufio.NewScanner(said)
	for lines.Scan() && !strings.Contains(lines.Text(), "listening") {
	}
	go func() { // it must not stop for a full pipe
		for lines.Scan() {
		}
	}()
	everything(t, newBench(t, fmt.Sprintf("  http: {url: \"http://localhost:%s/mcp\"}\n", port)))
}

func TestMCP_ReferenceFilesystem(t *testing.T) {
	t.Parallel()
	s := mcptest.Install(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, fmt.Sprintf("  stdio: {command: %q, args: [%q, %q]}\n  deny: [edit_file]\n", s.Node, s.Filesystem, dir))
	file := filepath.Join(dir, "note.txt")
	wantOutcome(t, b.once("write_file", "idempotent", fmt.Sprintf(`{"path":%q,"content":"kept"}`, file)), tools.Happened, "")
	if got, err := os.ReadFile(file); err != nil || string(got) != "kept" {
		t.Errorf("the file holds %q, %v", got, err)
	}
	out := b.once("read_text_file", "read", fmt.Sprintf(`{"path":%q}`, file))
	wantOutcome(t, out, tools.Happened, "")
	if !strings.Contains(string(out.Result), "kept") {
		t.Errorf("read_text_file: %s", out.Result)
	}
	out = b.once("read_text_file", "read", `{"path":"/etc/passwd"}`)
	wantOutcome(t, out, tools.Refused, "tool_error")
	if !strings.Contains(out.Error.Message, "denied") {
		t.Errorf("outside of its folder: %s", out.Error.Message)
	}
	wantOutcome(t, b.once("edit_file", "write", `{}`), tools.Refused, "tool_denied")
}
