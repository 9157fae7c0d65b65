package pgdev

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
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
