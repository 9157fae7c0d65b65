package pgdev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// unprivileged returns whom to run as: nil for ourselves, another user when we
// are root.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil && uid != 0 {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New(`PostgreSQL refuses to run as root and there is no user "postgres" or "nobody" to run it as`)
}

// clearPredecessor waits until no server uses data any more. A process that was
// killed leaves its server shutting down for a moment; one that does not end by
// itself is asked to, since whoever started it no longer holds our lock.
func clearPredecessor(ctx context.Context, data string, limit time.Duration) error {
	path := filepath.Join(data, "postmaster.pid")
	asked := false
	for began := time.Now(); ; {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		line, _, _ := strings.Cut(string(b), "\n")
		pid, _ := strconv.Atoi(strings.TrimSpace(line))
		if pid <= 0 || !isServerOf(ctx, pid, data) {
			// A file from before a crash. Postgres removes it too, unless its
			// number belongs to another process of the same user by now.
			if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			return nil
		}
		if waited := time.Since(began); waited > limit || ctx.Err() != nil {
			return fmt.Errorf("%s is in use by PostgreSQL, pid %d", data, pid)
		} else if waited > time.Second && !asked {
			asked = true
			_ = syscall.Kill(pid, syscall.SIGINT) // it may end just now
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// isServerOf reports whether pid is a live postgres that may use data.
func isServerOf(ctx context.Context, pid int, data string) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	if _, err := os.Stat("/proc/self/comm"); err == nil {
		proc := "/proc/" + strconv.Itoa(pid)
		comm, err := os.ReadFile(proc + "/comm")
		if err != nil || strings.TrimSpace(string(comm)) != "postgres" {
			return false
		}
		if stat, err := os.ReadFile(proc + "/stat"); err == nil && strings.Contains(string(stat), ") Z ") {
			return false // ended; nobody has asked for its status yet
		}
		cwd, err := os.Readlink(proc + "/cwd") // its data directory
		return err != nil || cwd == data
	}
	out, err := exec.CommandContext(ctx, "ps", "-o", "comm=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.Contains(filepath.Base(strings.TrimSpace(string(out))), "postgres")
}

// maxLogBytes is where the log of earlier starts is put aside.
const maxLogBytes = 16 << 20

func openLog(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxLogBytes {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// tail returns the last lines of a file, for an error message.
func tail(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(lines) > 8 {
		lines = lines[len(lines)-8:]
	}
	return strings.Join(lines, "\n")
}
