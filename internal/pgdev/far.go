package pgdev

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const (
	// farHome is where root keeps clusters whose directory the server's user
	// cannot reach, such as one below /root.
	farHome = "/var/lib/holdfast"
	// ownerFile, beside a far cluster, marks it as ours and says whose it is.
	ownerFile = "owner.json"
)

// owner is the directory that a far cluster belongs to, on a file system with
// this device number.
type owner struct {
	Dir    string
	Device uint64
}

// openFar finds or makes the directory of a cluster that cannot live in Dir. It
// removes clusters whose owner was deleted.
func (h *home) openFar(ctx context.Context, throwaway bool) (string, error) {
	if !throwaway {
		sweepFar(ctx, farHome)
	}
	if to, err := os.Readlink(h.link); err == nil {
		if _, err := os.Stat(to); err == nil {
			h.far = to
			return to, nil
		}
		if err := os.Remove(h.link); err != nil { // the cluster is gone
			return "", err
		}
	}
	parent := farHome
	if throwaway {
		parent = "/tmp"
	} else if err := os.MkdirAll(parent, 0o711); err != nil {
		return "", err
	}
	far, err := os.MkdirTemp(parent, "pg-")
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.Chmod(far, 0o711), os.Symlink(far, h.link), writeOwner(far, filepath.Dir(h.link))); err != nil {
		return "", errors.Join(err, os.RemoveAll(far))
	}
	if !reachable(far, h.cred) {
		return "", fmt.Errorf("user %d can reach neither the data directory nor %s", h.cred.Uid, far)
	}
	h.far = far
	return far, nil
}

func writeOwner(far, dir string) error {
	device, err := deviceOf(dir)
	if err != nil {
		return err
	}
	b, err := json.Marshal(owner{dir, device})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(far, ownerFile), b, 0o600)
}

// sweepFar removes the clusters in parent whose owner's directory was deleted.
// In doubt a cluster stays: without our mark, while a server uses it, or when
// the file system that the owner was on is not mounted.
func sweepFar(ctx context.Context, parent string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return // nothing was ever kept there
	}
	for _, e := range entries {
		far := filepath.Join(parent, e.Name())
		if e.IsDir() && strings.HasPrefix(e.Name(), "pg-") && orphaned(far) && !inUse(ctx, filepath.Join(far, "data")) {
			_ = os.RemoveAll(far) // what stays is tried again by the next start
		}
	}
}

func orphaned(far string) bool {
	b, err := os.ReadFile(filepath.Join(far, ownerFile))
	var o owner
	if err != nil || json.Unmarshal(b, &o) != nil || !filepath.IsAbs(o.Dir) {
		return false
	}
	if to, err := os.Readlink(filepath.Join(o.Dir, linkName)); err == nil && to == far {
		return false
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false
	}
	for dir := o.Dir; ; dir = filepath.Dir(dir) {
		device, err := deviceOf(dir)
		if errors.Is(err, os.ErrNotExist) && dir != filepath.Dir(dir) {
			continue
		}
		return err == nil && device == o.Device
	}
}

func inUse(ctx context.Context, data string) bool {
	b, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	return err != nil || pid > 0 && isServerOf(ctx, pid, data)
}

func deviceOf(path string) (uint64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, fmt.Errorf("%s: the system does not tell its file system", path)
	}
	return uint64(st.Dev), nil
}
