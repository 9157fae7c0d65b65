package pgdev

import "syscall"

// diesWithParent: the kernel signals the server when we end.
const diesWithParent = true

// procAttr runs a child as cred, in a process group of its own (Ctrl-C in the
// terminal is for us, we stop it in order), and asks for a fast shutdown when
// the thread that started it ends.
func procAttr(cred *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: cred, Setpgid: true, Pdeathsig: syscall.SIGINT}
}
