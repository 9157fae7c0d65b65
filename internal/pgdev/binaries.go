package pgdev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"time"
)

// ErrNotInstalled says that the machine has no PostgreSQL server binaries.
var ErrNotInstalled = errors.New(`PostgreSQL is not installed: no "postgres" and "initdb" side by side`)

// minVersion is the oldest major version that Holdfast is tested with.
const minVersion = 14

type binaries struct {
	dir     string
	version int
}

// patterns are where packages put the server binaries, which most keep off
// PATH: Debian and Ubuntu, Red Hat, SUSE, Alpine; then Homebrew and Postgres.app.
func patterns() []string {
	if runtime.GOOS == "darwin" {
		return []string{
			"/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin",
			"/opt/homebrew/opt/postgresql/bin", "/usr/local/opt/postgresql/bin",
			"/Applications/Postgres.app/Contents/Versions/*/bin",
		}
	}
	return []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/lib/postgresql*/bin",
		"/usr/libexec/postgresql*", "/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",
	}
}

// findBinaries returns the newest installed version, or exactly the wanted one
// when want is not zero: a cluster is readable by its own version only.
func findBinaries(ctx context.Context, want int) (*binaries, error) {
	var dirs []string
	for _, p := range patterns() {
		m, _ := filepath.Glob(p) // the patterns are well formed
		dirs = append(dirs, m...)
	}
	if p, err := exec.LookPath("postgres"); err == nil {
		// On PATH it is often a link to where initdb lies as well.
		if real, err := filepath.EvalSymlinks(p); err == nil {
			p = real
		}
		dirs = append(dirs, filepath.Dir(p))
	}
	var best *binaries
	var found []int
	for _, dir := range dirs {
		version, err := serverVersion(ctx, dir)
		if err != nil {
			continue // incomplete, or for another machine
		}
		found = append(found, version)
		if want == 0 && (best == nil || version > best.version) || version == want && best == nil {
			best = &binaries{dir: dir, version: version}
		}
	}
	switch {
	case best == nil && want != 0 && len(found) > 0:
		return nil, fmt.Errorf("the data was written by PostgreSQL %d, installed is %v: install version %d or use another data directory", want, found, want)
	case best == nil:
		return nil, ErrNotInstalled
	case best.version < minVersion:
		return nil, fmt.Errorf("PostgreSQL %d in %s is too old: install version %d or newer", best.version, best.dir, minVersion)
	}
	return best, nil
}

// Installed returns the directory and the major version of the server binaries
// that Start would use for a new cluster, or ErrNotInstalled.
func Installed(ctx context.Context) (dir string, version int, err error) {
	b, err := findBinaries(ctx, 0)
	if err != nil {
		return "", 0, err
	}
	return b.dir, b.version, nil
}

var versionPattern = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

func serverVersion(ctx context.Context, dir string) (int, error) {
	if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return 0, err
	}
	m := versionPattern.FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("%s/postgres says %q", dir, out)
	}
	return strconv.Atoi(string(m[1]))
}
