//go:build unix && !linux

package kind

import "syscall"

// childAttr puts a server into a process group of its own. When this process is
// killed, the watchdog ends the group.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
