package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// smallDisk is the size of the file system that is filled.
const smallDisk = 64 << 20

var natsFull = nemesis{
	name: "nats-disk-full", what: "NATS's data is on a file system of 64 MiB that is full for three seconds; then NATS is killed and starts again with room and without its data",
	possible: func() string {
		dir, err := os.MkdirTemp("", "holdfast-mount-")
		if err != nil {
			return err.Error()
		}
		defer os.Remove(dir)
		if err := mountSmall(dir, smallDisk); err != nil {
			return "a file system of its own needs root: " + err.Error()
		}
		if err := unmount(dir); err != nil {
			return err.Error()
		}
		return ""
	},
	strike: func(ctx context.Context, r *rig) (err error) {
		if _, err := r.sup.Kill("nats", "to move to a small disk"); err != nil {
			return err
		}
		if err := errors.Join(os.RemoveAll(r.services.NATSDir), os.MkdirAll(r.services.NATSDir, 0o755), mountSmall(r.services.NATSDir, smallDisk)); err != nil {
			return err
		}
		defer func() {
			_, killed := r.sup.Kill("nats", "disk full")
			err = errors.Join(err, killed, unmount(r.services.NATSDir), r.sup.Restart(ctx, "nats"))
		}()
		if err := r.sup.Restart(ctx, "nats"); err != nil {
			return err
		}
		rest(ctx, time.Second)
		if err := fill(filepath.Join(r.services.NATSDir, "ballast")); err != nil {
			return err
		}
		rest(ctx, 3*time.Second)
		return nil
	},
}

func mountSmall(dir string, size int64) error {
	return run("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d", size), "tmpfs", dir)
}

func unmount(dir string) error { return run("umount", dir) }

func run(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// fill writes until nothing more fits.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	piece := make([]byte, 64<<10)
	for range smallDisk/len(piece) + 1 {
		if _, err := f.Write(piece); errors.Is(err, syscall.ENOSPC) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return fmt.Errorf("%s has more room than it should have", path)
}
