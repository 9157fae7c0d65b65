package pgdev

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestFindBinaries_NamesTheVersionThatIsMissing(t *testing.T) {
	t.Parallel()
	if _, err := findBinaries(t.Context(), 0); err != nil {
		if os.Getenv("CI") == "" {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	_, err := findBinaries(t.Context(), 99)
	if err == nil || !strings.Contains(err.Error(), "written by PostgreSQL 99") {
		t.Errorf("findBinaries(99) = %v, want which version is needed", err)
	}
}

func TestReachable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	closed := filepath.Join(dir, "closed")
	if err := os.MkdirAll(filepath.Join(closed, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	stranger := &syscall.Credential{Uid: 54321, Gid: 54321}
	if reachable(filepath.Join(closed, "in"), stranger) {
		t.Error("a stranger reaches what is below a closed directory")
	}
	if !reachable("/", stranger) || !reachable(closed, nil) {
		t.Error("the root, or our own directory, is out of reach")
	}
	if reachable(filepath.Join(dir, "absent"), stranger) {
		t.Error("what does not exist is reachable")
	}
	info, err := os.Stat(closed)
	if err != nil {
		t.Fatal(err)
	}
	own := info.Sys().(*syscall.Stat_t)
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	if reachable(filepath.Join(closed, "in"), &syscall.Credential{Uid: own.Uid, Gid: 1}) != reachable(dir, &syscall.Credential{Uid: own.Uid, Gid: 1}) {
		t.Error("the owner does not reach its own directory")
	}
}

func TestWatchdog(t *testing.T) {
	t.Parallel()
	victim := func() (*exec.Cmd, chan error) {
		cmd := exec.CommandContext(t.Context(), "sleep", "60")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		return cmd, done
	}

	dies, died := victim()
	w, err := startWatchdog(dies.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.pipe.Close(); err != nil { // what the kernel does when we are killed
		t.Fatal(err)
	}
	select {
	case err := <-died:
		if err == nil || !strings.Contains(err.Error(), "interrupt") {
			t.Errorf("ended with %v, want by SIGINT", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the process outlives the end of the pipe")
	}
	_ = w.cmd.Wait()

	lives, lived := victim()
	if w, err = startWatchdog(lives.Process.Pid); err != nil {
		t.Fatal(err)
	}
	w.close()
	select {
	case err := <-lived:
		t.Errorf("ended with %v although the watchdog was dismissed", err)
	default:
	}
	_ = lives.Process.Kill()
	<-lived
	(*watchdog)(nil).close()
}
