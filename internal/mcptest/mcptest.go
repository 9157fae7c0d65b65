// Package mcptest gives tests the reference servers of the Model Context
// Protocol, installed from npm in the versions that its lock file names.
package mcptest

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

//go:embed package.json
var manifest []byte

//go:embed package-lock.json
var lock []byte

// Servers says where the programs of the reference servers are. Node runs them.
type Servers struct {
	Node       string
	Everything string
	Filesystem string
}

var (
	once      sync.Once
	installed Servers
	problem   string
)

// Install returns the reference servers. It installs them once for each lock,
// below bin/ of the repository, and fails the test when it cannot: on a machine
// without node run "make setup".
func Install(t testing.TB) Servers {
	t.Helper()
	once.Do(install)
	if problem != "" {
		t.Fatal(problem)
	}
	return installed
}

func install() {
	node, err := exec.LookPath("node")
	if err != nil {
		problem = "node is not installed; run make setup"
		return
	}
	root, err := root()
	if err != nil {
		problem = err.Error()
		return
	}
	sum := sha256.Sum256(lock)
	dir := filepath.Join(root, "bin", "mcp-servers", hex.EncodeToString(sum[:6]))
	modules := filepath.Join(dir, "node_modules", "@modelcontextprotocol")
	installed = Servers{
		Node: node, Everything: filepath.Join(modules, "server-everything", "dist", "index.js"),
		Filesystem: filepath.Join(modules, "server-filesystem", "dist", "index.js"),
	}
	if _, err := os.Stat(dir); err == nil {
		return // it is moved there when it is whole
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		problem = err.Error()
		return
	}
	work, err := os.MkdirTemp(parent, "install-")
	if err != nil {
		problem = err.Error()
		return
	}
	defer os.RemoveAll(work)
	for name, text := range map[string][]byte{"package.json": manifest, "package-lock.json": lock} {
		if err := os.WriteFile(filepath.Join(work, name), text, 0o644); err != nil {
			problem = err.Error()
			return
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	npm := exec.CommandContext(ctx, "npm")
	if npm.Err != nil { // scripts/setup.sh keeps one where the system's packages would bring hundreds of others
		cache, err := os.UserCacheDir()
		if err != nil {
			problem = err.Error()
			return
		}
		npm = exec.CommandContext(ctx, node, filepath.Join(cache, "holdfast", "npm", "bin", "npm-cli.js"))
	}
	npm.Args = append(npm.Args, "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline")
	npm.Dir = work
	if out, err := npm.CombinedOutput(); err != nil {
		problem = "npm ci of the MCP reference servers: " + err.Error() + "\n" + string(out)
		return
	}
	// Another test's process may have been quicker.
	if err := os.Rename(work, dir); err != nil {
		if _, there := os.Stat(dir); there != nil {
			problem = err.Error()
		}
	}
}

// root is the folder of go.mod.
func root() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", os.ErrNotExist
		}
		dir = parent
	}
	return "", err
}
