package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/lab"
	"github.com/holdfast-run/holdfast/internal/pgdev"
)

// command prepares the command with nothing of this process's settings. The test
// binary is the command when it is called by its name, see TestMain.
func command(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Args[0] = "holdfast"
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, env...)
	cmd.Dir, cmd.SysProcAttr = t.TempDir(), lab.ProcessAttributes()
	return cmd
}

// output runs the command to its end and returns what it printed and its exit
// code.
func output(t *testing.T, env []string, args ...string) (text string, code int) {
	t.Helper()
	out, err := command(t, env, args...).CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(out), exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(out), 0
}

// server is the command running in the background.
type server struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{}

	mu   sync.Mutex
	text bytes.Buffer
}

// start runs the command and returns when a line of its output holds ready.
func start(t *testing.T, env []string, ready string, args ...string) *server {
	t.Helper()
	s := &server{t: t, cmd: command(t, env, args...), done: make(chan struct{})}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s.cmd.Stdout, s.cmd.Stderr = w, w
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	seen := make(chan struct{})
	go func() {
		found := false
		lines := bufio.NewReader(r)
		for {
			line, err := lines.ReadString('\n')
			s.mu.Lock()
			s.text.WriteString(line)
			s.mu.Unlock()
			if !found && strings.Contains(line, ready) {
				found = true
				close(seen)
			}
			if err != nil {
				break
			}
		}
		_ = s.cmd.Wait() // stop reads the state
		close(s.done)
	}()
	t.Cleanup(func() { s.stop(syscall.SIGKILL) })
	select {
	case <-seen:
	case <-s.done:
		t.Fatalf("holdfast %s ended: %s\n%s", strings.Join(args, " "), s.cmd.ProcessState, s.output())
	case <-time.After(90 * time.Second):
		t.Fatalf("holdfast %s is not ready:\n%s", strings.Join(args, " "), s.output())
	}
	return s
}

func (s *server) output() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// stop sends a signal and waits for the end.
func (s *server) stop(sig syscall.Signal) *os.ProcessState {
	_ = s.cmd.Process.Signal(sig) // it may have ended
	select {
	case <-s.done:
	case <-time.After(60 * time.Second):
		s.t.Errorf("%s does not stop after %s:\n%s", s.cmd.Args[1], sig, s.output())
	}
	return s.cmd.ProcessState
}

// free is an address that nobody listens on now.
func free(t *testing.T) string {
	t.Helper()
	addr, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// requirePostgres skips on a machine without PostgreSQL, unless CI is set.
func requirePostgres(t *testing.T) {
	t.Helper()
	if _, _, err := pgdev.Installed(t.Context()); errors.Is(err, pgdev.ErrNotInstalled) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
}

// dataDir is a directory for dev that the server's user can reach.
func dataDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "holdfast-test-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func read(t *testing.T, r io.ReadCloser) string {
	t.Helper()
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// background is a context for clean-up after the test's own has ended.
func background(t *testing.T) context.Context { return context.WithoutCancel(t.Context()) }
