package e2e

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/lab"
)

// patience is how long a condition is waited for that should hold in a moment.
const patience = 30 * time.Second

// until polls until check holds.
func until(t *testing.T, what string, check func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !check(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %s still waiting for %s", patience, what)
		}
	}
}

// plan says how one process is run. It may be started again and again: its
// addresses stay.
type plan struct {
	name   string // "runner-1"
	args   []string
	env    []string
	health string
}

// process is one running or ended process.
type process struct {
	plan
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

func spawn(t *testing.T, p plan, more ...string) *process {
	t.Helper()
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, p.name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// The process must survive the end of the test's context: it is ended by
	// clean-up, after whoever needs it.
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), binary, p.args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(append([]string(nil), p.env...), more...), f, f
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", p.name, err)
	}
	s := &process{plan: p, cmd: cmd, log: f.Name(), done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // the state says how it ended
		close(s.done)
	}()
	t.Cleanup(func() {
		s.signal(t, syscall.SIGKILL)
		<-s.done
		s.saysNothingBad(t)
		if t.Failed() {
			t.Logf("end of the log of %s (pid %d):\n%s", p.name, cmd.Process.Pid, s.tail())
		}
	})
	return s
}

// ready waits until the process says that it is.
func (s *process) ready(t *testing.T) {
	t.Helper()
	until(t, s.name+" to be ready", func() bool {
		select {
		case <-s.done:
			t.Fatalf("%s ended while it started: %s\n%s", s.name, s.cmd.ProcessState, s.tail())
		default:
		}
		return answers(t.Context(), "http://"+s.health+"/ready")
	})
}

func answers(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

func (s *process) signal(t *testing.T, sig syscall.Signal) {
	if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("%s to %s: %v", sig, s.name, err)
	}
}

// kill ends the process at once and says when.
func (s *process) kill(t *testing.T) time.Time {
	t.Helper()
	at := time.Now()
	s.signal(t, syscall.SIGKILL)
	<-s.done
	return at
}

// ended waits for a process that ends by itself, by its failpoint.
func (s *process) ended(t *testing.T) {
	t.Helper()
	select {
	case <-s.done:
	case <-time.After(patience):
		t.Fatalf("%s is still running", s.name)
	}
	if got := s.cmd.ProcessState.String(); got != "signal: killed" || !strings.Contains(s.tail(), "failpoint ") {
		t.Fatalf("%s ended with %s and not at its failpoint:\n%s", s.name, got, s.tail())
	}
}

// term asks the process to stop and demands a clean end.
func (s *process) term(t *testing.T) {
	t.Helper()
	s.signal(t, syscall.SIGTERM)
	select {
	case <-s.done:
	case <-time.After(patience):
		t.Fatalf("%s does not stop", s.name)
	}
	if !s.cmd.ProcessState.Success() {
		t.Errorf("%s ended with %s after SIGTERM:\n%s", s.name, s.cmd.ProcessState, s.tail())
	}
}

// saysNothingBad looks for the values of its secrets in all that it wrote, and for
// what NATS refused to a service.
func (s *process) saysNothingBad(t *testing.T) {
	b, err := os.ReadFile(s.log)
	if err != nil {
		t.Error(err)
	}
	noViolation(t, b)
	for _, kv := range s.env {
		if name, value, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "E2E_") && strings.Contains(string(b), value) {
			t.Errorf("%s logs its %s", s.name, name)
		}
	}
}

func (s *process) pid() int { return s.cmd.Process.Pid }

func (s *process) tail() string {
	b, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[max(0, len(b)-3000):]))
}

// command runs the binary to its end.
func command(t *testing.T, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, bad strings.Builder
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = env, t.TempDir(), &out, &bad
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return out.String(), bad.String(), exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), bad.String(), 0
}

// baseEnv is what a process needs and nothing that configures Holdfast.
func baseEnv() []string {
	var env []string
	for _, kv := range os.Environ() {
		switch name, _, _ := strings.Cut(kv, "="); name {
		case "PATH", "HOME", "TMPDIR", "USER", "GOCOVERDIR":
			env = append(env, kv)
		}
	}
	return env
}

// free is a loopback address for one server, as [lab.FreeAddrs] gives it.
func free(t *testing.T) string {
	t.Helper()
	addrs, err := lab.FreeAddrs(1)
	if err != nil {
		t.Fatal(err)
	}
	return addrs[0]
}
