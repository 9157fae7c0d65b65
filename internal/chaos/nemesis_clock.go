package chaos

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// astray are the processes whose clocks are wrong, one after the other; their siblings
// and everybody else have the right time.
var astray = []string{"runner-1", "tools-1", "trigger", "approvals"}

// clockOffset is the variable by which a test build's clock is moved (internal/clocktest).
const clockOffset = "HOLDFAST_TEST_CLOCK_OFFSET="

var clocksApart = nemesis{
	name: "clocks-apart", what: "the clock of a runner, of a tools worker, of the trigger and of the approvals is an hour ahead and then an hour behind, one process at a time",
	possible: func() string {
		_, why := sourceRoot()
		return why
	},
	prepare: func(ctx context.Context, r *rig) error {
		root, _ := sourceRoot()
		build := exec.CommandContext(ctx, "go", "test", "-c", "-trimpath", "-vet=off", "-ldflags", "-w", "-o", r.testBuild(), "./cmd/holdfast")
		build.Dir, build.Env = root, append(build.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build the binary of the tests: %w: %.2000s", err, out)
		}
		return nil
	},
	strike: func(ctx context.Context, r *rig) error {
		for _, p := range r.services.Programs {
			for _, name := range astray {
				if p.Name != name {
					continue
				}
				for _, offset := range []string{"1h", "-1h", ""} {
					if err := r.sup.Term(name, "another clock", 30*time.Second); err != nil {
						return err
					}
					wrong := p
					if offset != "" {
						wrong.Binary, wrong.Env = r.testBuild(), append(p.Env[:len(p.Env):len(p.Env)], clockOffset+offset)
					}
					if err := r.sup.Start(ctx, wrong); err != nil {
						return err
					}
					rest(ctx, time.Second)
				}
			}
		}
		return nil
	},
}

// testBuild is where the binary whose clock can be moved is built. The binary of the
// command's tests is the command when it is called by its name.
func (r *rig) testBuild() string { return filepath.Join(r.dir, "test", "holdfast") }

// sourceRoot finds the sources around the working directory; why says what is missing.
func sourceRoot() (root, why string) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Path}} {{.Dir}}").Output()
	module, root, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if err != nil || module != "github.com/holdfast-run/holdfast" {
		return "", "a clock is moved in a test build only, and there is no Go, or these are not the sources"
	}
	return root, ""
}
