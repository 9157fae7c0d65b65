package kind

import "syscall"

// childAttr puts a server into a process group of its own and has the kernel
// end it when the thread that started it ends.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
