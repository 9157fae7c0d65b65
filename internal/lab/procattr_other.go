//go:build !linux

package lab

import "syscall"

// ProcessAttributes puts a child in a process group of its own, so that Ctrl-C
// reaches only us. Only Linux kills the children of a process that dies.
func ProcessAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
