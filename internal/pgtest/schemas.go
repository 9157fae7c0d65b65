package pgtest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-run/holdfast/internal/pg"
)

// order is how services are migrated: readers of others' views come later.
// Services that are not named follow by name.
var order = []string{"console", "trigger", "runner", "tools", "approvals"}

// Schemas returns the migrations of every service in the source tree, in the
// order in which they are applied. It reads files instead of importing the
// services, so that the services' own tests may use this package.
func Schemas() ([]pg.Schema, error) {
	schemas, _, err := schemasOfTree()
	return schemas, err
}

func schemasOfTree() (schemas []pg.Schema, digest string, err error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, "", err
	}
	dirs, err := filepath.Glob(filepath.Join(root, "services", "*", "postgres", "migrations"))
	if err != nil {
		return nil, "", err
	}
	// A service has migrations once its package embeds them.
	dirs = slices.DeleteFunc(dirs, func(dir string) bool {
		_, err := os.Stat(filepath.Join(filepath.Dir(dir), "migrations.go"))
		return err != nil
	})
	// The base schema is compiled in; its files stand for it in the digest.
	hashed := append([]string{filepath.Join(root, "internal", "pg", "migrations")}, dirs...)
	h := sha256.New()
	for _, dir := range hashed {
		files, err := filepath.Glob(filepath.Join(dir, "*.sql"))
		if err != nil {
			return nil, "", err
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				return nil, "", err
			}
			fmt.Fprintf(h, "%s %d\n%s", f, len(b), b)
		}
		if dir != hashed[0] && len(files) > 0 {
			name := filepath.Base(filepath.Dir(filepath.Dir(dir)))
			schemas = append(schemas, pg.Schema{Name: name, FS: os.DirFS(dir)})
		}
	}
	slices.SortStableFunc(schemas, func(a, b pg.Schema) int {
		if d := rank(a.Name) - rank(b.Name); d != 0 {
			return d
		}
		return strings.Compare(a.Name, b.Name)
	})
	return schemas, hex.EncodeToString(h.Sum(nil))[:12], nil
}

func rank(name string) int {
	if i := slices.Index(order, name); i >= 0 {
		return i
	}
	return len(order)
}

// moduleRoot finds go.mod above the working directory, which go test sets to
// the folder of the package.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the working directory: pgtest needs the source tree")
		}
		dir = parent
	}
}
