// Package watchdog ends a child process, or its whole process group, when this
// process does, however it ends. It works wherever there is a shell, and keeps
// no state.
package watchdog

import (
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"syscall"
)

// Watchdog is a shell that waits for the end of a pipe of which this process
// holds the only writer.
type Watchdog struct {
	cmd  *exec.Cmd
	pipe io.WriteCloser
}

// Process interrupts the process pid when ours ends.
func Process(pid int) (*Watchdog, error) { return start(`kill -INT "$1"`, pid) }

// Group kills the process group of that number when our process ends.
func Group(group int) (*Watchdog, error) { return start(`kill -KILL -"$1"`, group) }

func start(end string, number int) (*Watchdog, error) {
	cmd := exec.Command("/bin/sh", "-c", `read -r stop; test "$stop" = done || `+end, "sh", strconv.Itoa(number))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is not for it
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start watchdog: %w", err)
	}
	return &Watchdog{cmd: cmd, pipe: pipe}, nil
}

// Close dismisses the watchdog. A nil one needs no dismissal.
func (w *Watchdog) Close() {
	if w == nil {
		return
	}
	_, _ = io.WriteString(w.pipe, "done\n")
	_ = w.pipe.Close()
	_ = w.cmd.Wait()
}
