package lab

import "syscall"

// ProcessAttributes puts a child in a process group of its own, so that Ctrl-C
// reaches only us, and has the kernel kill it when we die.
func ProcessAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
