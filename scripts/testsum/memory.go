package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// What must be free before tests write into memory: databases and streams of a
// whole run take some 2 GiB, test binaries as much again.
const (
	memoryDir  = "/dev/shm"
	enoughRoom = 8 << 30  // bytes of memoryDir
	enoughFree = 12 << 30 // bytes of memory
)

// inMemory makes a folder for temporary files in memory and points TMPDIR to it:
// tests open and drop hundreds of databases and streams, and keep nothing. Where
// there is no such file system, or little memory, it does nothing. Remove takes the
// folder away.
func inMemory() (remove func(), err error) {
	if room(memoryDir) < enoughRoom || available("/proc/meminfo") < enoughFree {
		return func() {}, nil
	}
	dir, err := os.MkdirTemp(memoryDir, "hf-") // short: the path of a Unix socket ends at 107 bytes
	if err != nil {
		return nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	if err := os.Chmod(dir, 0o711); err != nil { // PostgreSQL runs as another user
		remove()
		return nil, err
	}
	return remove, os.Setenv("TMPDIR", dir)
}

// room is how many bytes a file system has free for users; 0 when there is none.
func room(dir string) uint64 {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0
	}
	return s.Bavail * uint64(s.Bsize)
}

// available is how many bytes of memory may be used without swapping, as the
// kernel estimates it; 0 where it does not say. Source: proc(5).
func available(meminfo string) uint64 {
	f, err := os.Open(meminfo)
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var kib uint64
		if rest, ok := strings.CutPrefix(lines.Text(), "MemAvailable:"); ok {
			if _, err := fmt.Sscan(rest, &kib); err != nil {
				return 0
			}
			return kib << 10
		}
	}
	return 0
}
