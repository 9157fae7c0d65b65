package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/pgtest"
)

// TestDocs_Queries has Postgres plan every SQL block of the documents. A psql variable
// stands for a text.
func TestDocs_Queries(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	n := 0
	for _, page := range docPages(t) {
		for _, b := range page.Blocks {
			if b.Lang != "sql" || b.NotRun != "" {
				continue
			}
			n++
			query := strings.ReplaceAll(b.Text, ":'run'", "''")
			if _, err := db.Pool.Exec(t.Context(), "EXPLAIN "+query); err != nil {
				t.Errorf("%s:%d: %v", page.Path, b.Line, err)
			}
		}
	}
	if n == 0 {
		t.Error("no query: the check has lost its way")
	}
}

// TestDocs_GoBlocks compiles every Go block of the documents, in one build. A block
// without a package clause is what a function does.
func TestDocs_GoBlocks(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("testdata", "docs-go-") // within the module, whose packages they use
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	args := []string{"build", "-o", os.DevNull}
	for _, page := range docPages(t) {
		for i, b := range page.Blocks {
			if b.Lang != "go" || b.NotRun != "" {
				continue
			}
			at := filepath.Join(dir, namespaceOf(page.Path)+"-"+string(rune('a'+i%26)))
			if err := os.Mkdir(at, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(at, "main.go"), []byte(b.Text), 0o644); err != nil {
				t.Fatal(err)
			}
			args = append(args, "./"+at)
		}
	}
	if len(args) == 3 {
		return
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", cmd, err, out)
	}
}
