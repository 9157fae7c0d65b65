package kind_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// envWorker makes TestMCP_Worker a worker that is in the middle of a call.
const envWorker = "FAKE_MCP_WORKER"

// TestMCP_Worker is a tools worker when another test starts it; it tells the
// pids of the server and of the server's child, and then waits in a call.
func TestMCP_Worker(t *testing.T) {
	t.Parallel()
	if os.Getenv(envWorker) == "" {
		worker := startWorker(t)
		if server, sleeper := worker.pids(); server == sleeper || server == 0 {
			t.Errorf("pids %d and %d", server, sleeper)
		}
		return
	}
	b := newBench(t, stdioFake(t, ""))
	fmt.Printf("pids %s\n", strings.Trim(string(b.once("children", "read", `{}`).Result), `"`))
	b.call(b.imported("hang", "write"), `{}`, time.Minute)
}

type workerProcess struct {
	t   *testing.T
	cmd *exec.Cmd
	out *bufio.Scanner
}

func startWorker(t *testing.T) *workerProcess {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestMCP_Worker$", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), envWorker+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	return &workerProcess{t: t, cmd: cmd, out: bufio.NewScanner(out)}
}

func (w *workerProcess) pids() (server, sleeper int) {
	w.t.Helper()
	for w.out.Scan() {
		if text, ok := strings.CutPrefix(w.out.Text(), "pids "); ok {
			if _, err := fmt.Sscan(text, &server, &sleeper); err != nil {
				w.t.Fatalf("%q: %v", text, err)
			}
			return server, sleeper
		}
	}
	w.t.Fatal("the worker ended without telling its pids")
	return 0, 0
}

// copyBody reads a request's body and puts it back.
func copyBody(t *testing.T, r *http.Request) []byte {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(b))
	return b
}
