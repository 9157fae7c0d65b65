package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// binary is what "make build" would build, made once for all tests.
var binary string

func TestMain(m *testing.M) {
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "holdfast-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "holdfast")
	// "go test" puts its own go command first in PATH.
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags", "-s -w", "-o", binary, "../../cmd/holdfast")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as make build, so that both share what they compile
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "e2e: %s: %v\n%s", build, err, out)
		return 1
	}
	return m.Run()
}
