package pgdev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const (
	// maxSocketPath bounds the whole path of a unix socket: sun_path has 104
	// bytes on macOS and 108 on Linux, with the NUL.
	maxSocketPath = 103
	socketName    = "/.s.PGSQL.5432.lock" // the longest file beside the socket
	linkName      = "far"                 // Dir's link to a cluster elsewhere
)

// home is where one cluster and its socket live, owned by the server's user.
type home struct {
	data    string
	sockets string
	cred    *syscall.Credential
	far     string // the directory in farHome, when there is one
	link    string // Dir's link to it
	record  string // file that names a socket directory outside Dir
}

// openHome finds or makes the directories of the cluster of dir.
func openHome(ctx context.Context, dir string, cred *syscall.Credential, throwaway bool) (*home, error) {
	h := &home{cred: cred, link: filepath.Join(dir, linkName), record: filepath.Join(dir, "socketdir")}
	base := dir
	if !reachable(dir, cred) {
		var err error
		if base, err = h.openFar(ctx, throwaway); err != nil {
			return nil, err
		}
	}
	h.data = filepath.Join(base, "data")
	if err := h.mkdir(h.data); err != nil {
		return nil, err
	}
	return h, h.openSockets(base)
}

// openSockets makes the socket's directory below base, or in the temporary
// directory when the path would be too long; that one's name is kept in a file,
// so that the next start removes what a kill left.
func (h *home) openSockets(base string) error {
	if old, err := os.ReadFile(h.record); err == nil {
		if p := string(old); strings.Contains(filepath.Base(p), "holdfast-pg-") {
			if err := os.RemoveAll(p); err != nil {
				return err
			}
		}
		if err := os.Remove(h.record); err != nil {
			return err
		}
	}
	h.sockets = filepath.Join(base, "run")
	if len(h.sockets)+len(socketName) <= maxSocketPath {
		return h.mkdir(h.sockets)
	}
	for _, tmp := range []string{os.TempDir(), "/tmp"} {
		if len(tmp)+len("/holdfast-pg-0123456789")+len(socketName) > maxSocketPath || !reachable(tmp, h.cred) {
			continue
		}
		dir, err := os.MkdirTemp(tmp, "holdfast-pg-")
		if err != nil {
			return err
		}
		h.sockets = dir
		if err := os.WriteFile(h.record, []byte(dir), 0o600); err != nil {
			return err
		}
		return h.own(dir)
	}
	return fmt.Errorf("path %s is too long for a socket (%d bytes at most)", h.sockets, maxSocketPath-len(socketName))
}

// mkdir makes a directory that only the server's user may enter.
func (h *home) mkdir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return err
	}
	return h.own(dir)
}

func (h *home) own(dir string) error {
	if h.cred == nil {
		return nil
	}
	return os.Chown(dir, int(h.cred.Uid), int(h.cred.Gid))
}

// version is the major version that wrote the cluster, 0 when there is none.
func (h *home) version() int {
	b, err := os.ReadFile(filepath.Join(h.data, "PG_VERSION"))
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(b))) // "9.6" is none of ours
	return n
}

// close removes what lies outside Dir: the socket's directory, and with all
// the cluster as well.
func (h *home) close(all bool) error {
	var errs []error
	if _, err := os.Stat(h.record); err == nil {
		errs = append(errs, os.RemoveAll(h.sockets), os.Remove(h.record))
	}
	if all && h.far != "" {
		errs = append(errs, os.RemoveAll(h.far))
	}
	return errors.Join(errs...)
}

// reachable reports whether the user may pass through every directory down to
// dir. It looks at the permission bits only, which is what counts here: a
// server that could not reach its data would say so.
func reachable(dir string, cred *syscall.Credential) bool {
	if cred == nil {
		return true // our own user
	}
	for {
		info, err := os.Stat(dir)
		if err != nil {
			return false
		}
		bit := os.FileMode(0o001)
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			switch {
			case st.Uid == cred.Uid:
				bit = 0o100
			case st.Gid == cred.Gid:
				bit = 0o010
			}
		}
		if info.Mode()&bit == 0 {
			return false
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return true
		}
		dir = parent
	}
}
