// Package dirlock lets one process at a time use a directory.
//
// The lock is the kernel's: it goes with the process, however that dies, and
// never has to be cleaned up by hand.
package dirlock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// file is the name of the lock file; its text names the holder.
const file = "lock"

// HeldError says who uses the directory.
type HeldError struct {
	Dir    string
	Holder string // "pid 4711, PostgreSQL, since 2026-11-29 10:00:00"; may be empty
}

func (e *HeldError) Error() string {
	holder := e.Holder
	if holder == "" {
		holder = "another process"
	}
	return fmt.Sprintf("%s is in use by %s; stop it or use another directory", e.Dir, holder)
}

// Lock is a held directory.
type Lock struct{ f *os.File }

// Acquire takes the directory, which must exist, for the use that what names in
// a word or two. It does not wait: when another process, or this one by another
// call, holds it, the error is a *HeldError.
func Acquire(dir, what string) (*Lock, error) {
	path := filepath.Join(dir, file)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock directory: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		_ = f.Close()
		holder, _ := os.ReadFile(path) // only for the message
		return nil, &HeldError{Dir: dir, Holder: strings.TrimSpace(string(holder))}
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = fmt.Fprintf(f, "pid %d, %s, since %s\n", os.Getpid(), what, time.Now().Format(time.DateTime))
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock directory %s: %w", dir, err)
	}
	return &Lock{f: f}, nil
}

// Release gives the directory back. The file stays: removing it would let two
// processes lock two files of one name. It is unlocked and not only closed: a
// process that is being started has the file open too, until it runs its program.
func (l *Lock) Release() error {
	return errors.Join(syscall.Flock(int(l.f.Fd()), syscall.LOCK_UN), l.f.Close())
}
