package chaos

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// previousFile names the commit of the release before, in the repository.
const previousFile = "test/chaos/previous.txt"

// mixed are the processes that run the release before, beside others that run this one.
var mixed = []string{"runner-1", "tools-1", "approvals"}

var releases = nemesis{
	name: "releases-side-by-side", what: "a runner, a tools worker and the approvals are replaced by those of the release before, work beside the new ones on the new database for four seconds, and are replaced again",
	possible: func() string {
		_, _, why := previousCommit()
		return why
	},
	prepare: func(ctx context.Context, r *rig) error {
		root, commit, _ := previousCommit()
		dir := filepath.Join(r.dir, "previous")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		for _, step := range []string{
			fmt.Sprintf("git -C %q archive %s | tar -x -C %q", root, commit, dir),
			fmt.Sprintf("cd %q && CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-s -w' -o %q ./cmd/holdfast", dir, r.previous()),
		} {
			if out, err := exec.CommandContext(ctx, "sh", "-c", step).CombinedOutput(); err != nil {
				return fmt.Errorf("build the release before: %w: %.2000s", err, out)
			}
		}
		return nil
	},
	strike: func(ctx context.Context, r *rig) error {
		for _, binary := range []string{r.previous(), ""} {
			for _, p := range r.services.Programs {
				for _, name := range mixed {
					if p.Name != name {
						continue
					}
					if err := r.sup.Term(name, "another release", 30*time.Second); err != nil && binary != "" {
						return err // how the release before ends is its own affair
					}
					if p.Binary = binary; binary != "" {
						p.Failpoints = "" // it may know no such file
					}
					if err := r.sup.Start(ctx, p); err != nil {
						return err
					}
				}
			}
			rest(ctx, 4*time.Second)
		}
		return nil
	},
}

// previous is where the release before is built.
func (r *rig) previous() string { return filepath.Join(r.dir, "holdfast-previous") }

// previousCommit finds the repository around the working directory and the commit of
// the release before; why says what is missing.
func previousCommit() (root, commit, why string) {
	for _, tool := range []string{"git", "go", "tar"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", "", "the release before is built from the repository's history, and there is no " + tool
		}
	}
	out, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	root = strings.TrimSpace(string(out))
	text, readErr := os.ReadFile(filepath.Join(root, previousFile))
	if err != nil || readErr != nil {
		return "", "", "the release before is built from the repository's history, and this is no clone of it"
	}
	commit = strings.TrimSpace(string(text))
	if exec.Command("git", "-C", root, "cat-file", "-e", commit+"^{commit}").Run() != nil {
		return "", "", "the release before, " + commit + ", is not in this clone's history"
	}
	return root, commit, ""
}
