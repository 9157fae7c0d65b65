//go:build unix && !linux

package pgdev

import "syscall"

// diesWithParent: the kernel tells nobody, a watchdog must.
const diesWithParent = false

// procAttr runs a child as cred in a process group of its own: Ctrl-C in the
// terminal is for us, we stop it in order.
func procAttr(cred *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: cred, Setpgid: true}
}
