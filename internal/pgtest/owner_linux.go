package pgtest

import (
	"os"
	"syscall"
	"testing"
)

// asOwnerOf makes root's child the user whose directory it is.
func asOwnerOf(t testing.TB, dir string) *syscall.SysProcAttr {
	t.Helper()
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		return attr
	}
	var info syscall.Stat_t
	if err := syscall.Stat(dir, &info); err != nil {
		t.Fatal(err)
	}
	attr.Credential = &syscall.Credential{Uid: info.Uid, Gid: info.Gid}
	return attr
}
