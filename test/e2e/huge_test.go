package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

const (
	hugeBytes = 300 << 20
	// What the processes may have had in memory, whatever came. Beside it the runner has
	// the large inputs of other tests.
	mostOfTools  = 320 << 20
	mostOfRunner = 512 << 20
)

const hugeDefinitions = `apiVersion: holdfast/v1
kind: MCPServer
metadata: {name: vast}
spec: {http: {url: "HUGE/mcp"}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: plain}
spec: {effect: read, description: Reads., input: {type: object}, http: {method: GET, url: "HUGE/plain"}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: zipped}
spec: {effect: read, description: Reads., input: {type: object}, http: {method: GET, url: "HUGE/zipped"}}
---
# It acts, and its answer is as large.
apiVersion: holdfast/v1
kind: Tool
metadata: {name: acts}
spec: {effect: write, approval: never, description: Acts., input: {type: object}, http: {method: POST, url: "HUGE/plain"}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: server}
spec: {effect: read, approval: never, description: Reads., input: {type: object}, mcp: {server: vast, tool: flood, schema: "SCHEMA"}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: reader}
spec: {model: scripted, instructions: "SHOP reader", tools: [plain, zipped, acts, server]}
`

// pour writes so many letters and stops when nobody reads them.
func pour(w io.Writer, n int) {
	part := bytes.Repeat([]byte("x"), 1<<20)
	for ; n > 0; n -= len(part) {
		if _, err := w.Write(part[:min(n, len(part))]); err != nil {
			return
		}
	}
}

// hugeServer answers 300 MB over HTTP, as they are and packed, and as an MCP server.
func hugeServer(t *testing.T) (url string, flood events.Digest) {
	t.Helper()
	var packed bytes.Buffer // a part of it; parts behind one another are one file
	z := gzip.NewWriter(&packed)
	pour(z, 1<<20)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	const schema = `{"type":"object"}`
	flood, err := spec.SchemaDigest("flood", "Floods.", json.RawMessage(schema))
	if err != nil {
		t.Fatal(err)
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "vast", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: "flood", Description: "Floods.", InputSchema: json.RawMessage(schema)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{}, nil
		})
	behind := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{JSONResponse: true})
	mux := http.NewServeMux()
	mux.HandleFunc("/plain", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		pour(w, hugeBytes)
	})
	mux.HandleFunc("/zipped", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Encoding", "x-gzip") // which net/http leaves as it is
		for range hugeBytes >> 20 {
			_, _ = w.Write(packed.Bytes()) // whoever stops reading has enough
		}
	})
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if err == nil && json.Unmarshal(body, &m) == nil && m.Method == "tools/call" {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, m.ID)
			pour(w, hugeBytes)
			_, _ = io.WriteString(w, `"}]}}`)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		behind.ServeHTTP(w, r)
	})
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	return web.URL, flood
}

// C10: results of 300 MB do not get into memory. What the model reads is cut and says so,
// its beginning is kept as an artifact, a server's answer that cannot be cut is refused
// with what to do, and the run goes on.
func hugeResults(t *testing.T, d *deployment) {
	url, flood := hugeServer(t)
	text := strings.NewReplacer("HUGE", url, "SCHEMA", string(flood), "SHOP", d.out.shopURL).Replace(hugeDefinitions)
	if _, err := d.admin.Apply(t.Context(), []client.Document{{File: "huge.yaml", Text: text}}); err != nil {
		t.Fatal(err)
	}
	j := job{Job: "huge", Do: []string{"plain", "zipped", "acts", "server"}}
	s, err := d.operator.Start(t.Context(), client.StartRequest{Agent: "reader", Input: j.input(), IdempotencyKey: j.Job})
	if err != nil {
		t.Fatal(err)
	}
	r := d.runOf(t, s.RunID, events.StatusCompleted)
	if !strings.Contains(string(r.Output), "huge is done, 1 calls failed") {
		t.Errorf("output %s", r.Output)
	}
	var results []events.ToolCompleted
	for _, e := range d.journal(t, s.RunID) {
		var done events.ToolCompleted
		if e.Kind != events.FactToolCompleted {
			continue
		}
		if err := json.Unmarshal(e.Data, &done); err != nil {
			t.Fatal(err)
		}
		if results = append(results, done); len(e.Data) > 600<<10 {
			t.Errorf("the result of %s has %d bytes in the journal", j.Do[len(results)-1], len(e.Data))
		}
	}
	if len(results) != len(j.Do) {
		t.Fatalf("%d results, want %d", len(results), len(j.Do))
	}
	for i, done := range results[:3] {
		var said struct {
			Note      string
			Artifacts []struct {
				Bytes     int
				Truncated bool
			}
		}
		if err := json.Unmarshal(done.Result, &said); err != nil || done.Status != events.CallSucceeded {
			t.Fatalf("%s: %s %.300s, %v", j.Do[i], done.Status, done.Result, err)
		}
		if !strings.Contains(said.Note, "the answer is longer") || len(said.Artifacts) != 1 || said.Artifacts[0].Bytes != 8<<20 || !said.Artifacts[0].Truncated {
			t.Errorf("%s says %q and keeps %+v, want the first 8 MiB", j.Do[i], said.Note, said.Artifacts)
		}
	}
	if last := results[3]; last.Status != events.CallFailed || last.Error == nil || last.Error.Code != "answer_too_large" || !strings.Contains(last.Error.Message, "ask for less") {
		t.Errorf("the server's answer became %s %+v", last.Status, last.Error)
	}
	for name, most := range map[string]int{"tools": mostOfTools, "runner-1": mostOfRunner} {
		if peak := peakOf(t, d.process(name).pid()); peak > most {
			t.Errorf("%s had %d MiB in memory at its peak, want at most %d", name, peak>>20, most>>20)
		} else {
			t.Logf("%s had %d MiB in memory at its peak", name, peak>>20)
		}
	}
}

// peakOf is the most resident memory that a process had, in bytes.
func peakOf(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatalf("the kernel does not say how much memory process %d had", pid)
	return 0
}
