package kind

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-run/holdfast/internal/watchdog"
)

// Limits of a server that runs as a child process.
const (
	maxStderrLine  = 1 << 10
	maxStderrLines = 200 // logged of one process
	childGrace     = 2 * time.Second
)

// child is a server program that runs in a process group of its own. It does
// not outlive this process: the kernel ends it (Linux), and a watchdog ends its
// whole group, wherever there is a shell.
type child struct {
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	exited chan struct{} // closed when the program has ended and its group is gone
	watch  *watchdog.Watchdog
	stop   sync.Once
	reads  sync.WaitGroup
}

// startChild starts the program. Its standard error is logged, bounded and with
// secrets taken out.
func startChild(cmd *exec.Cmd, log *slog.Logger, scrub scrubber) (*child, error) {
	var pipes [6]*os.File
	for i := 0; i < len(pipes); i += 2 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(pipes[:])
			return nil, fmt.Errorf("make a pipe: %w", err)
		}
		pipes[i], pipes[i+1] = r, w
	}
	c := &child{cmd: cmd, stdin: pipes[1], stdout: pipes[2], exited: make(chan struct{})}
	stderr := pipes[4]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = pipes[0], pipes[3], pipes[5]
	cmd.SysProcAttr = childAttr()
	started := make(chan error, 1)
	ended := make(chan struct{})
	go func() {
		// The kernel's promise is about the thread that starts the program.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended says nothing that the broken pipe does not
			close(ended)
		}
	}()
	err := <-started
	closeAll([]*os.File{pipes[0], pipes[3], pipes[5]})
	if err != nil {
		closeAll([]*os.File{c.stdin, c.stdout, stderr})
		return nil, startError(cmd.Path, err)
	}
	if c.watch, err = watchdog.Group(cmd.Process.Pid); err != nil {
		log.Debug("no watchdog for the server's own children", "err", err)
	}
	c.reads.Go(func() { logStderr(stderr, log, scrub) })
	go func() {
		<-ended
		c.signal(syscall.SIGKILL) // what the program has left behind
		c.watch.Close()
		_ = stderr.SetReadDeadline(time.Now().Add(childGrace)) // somebody outside the group may hold it
		c.reads.Wait()
		_ = c.stdout.SetReadDeadline(time.Now().Add(childGrace))
		close(c.exited)
	}()
	return c, nil
}

// startError names the program and not the arguments, which may hold anything.
func startError(program string, err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		err = e.Err
	}
	return fmt.Errorf("start %s: %w", program, err)
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

// signal sends to the whole group; it may have ended just now.
func (c *child) signal(s syscall.Signal) { _ = syscall.Kill(-c.cmd.Process.Pid, s) }

// close ends the program: its input ends, then it is asked, then it is killed.
// It blocks until it is gone.
func (c *child) close() error {
	c.stop.Do(func() {
		_ = c.stdin.Close()
		for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
			select {
			case <-c.exited:
				return
			case <-time.After(childGrace):
				c.signal(s)
			}
		}
		<-c.exited
	})
	<-c.exited
	_ = c.stdout.Close()
	return nil
}

// kill ends the program at once.
func (c *child) kill() { c.signal(syscall.SIGKILL) }

// write sends one line, until ctx ends. A line that was sent in part ends the
// program: nothing that follows could be understood.
func (c *child) write(ctx context.Context, line []byte) error {
	deadline, _ := ctx.Deadline() // zero: none
	if err := c.stdin.SetWriteDeadline(deadline); err != nil {
		return fmt.Errorf("write to the server: %w", err)
	}
	if _, err := c.stdin.Write(line); err != nil {
		c.kill()
		return fmt.Errorf("write to the server: %w", err)
	}
	return nil
}

// logStderr logs what the server writes there, a few lines of each process.
func logStderr(r *os.File, log *slog.Logger, scrub scrubber) {
	defer r.Close()
	b := bufio.NewReaderSize(r, maxStderrLine)
	for n := 0; ; {
		line, more, err := b.ReadLine()
		if len(line) > 0 {
			if n++; n <= maxStderrLines {
				log.Debug("mcp server says", "text", scrub.clean(string(line), maxStderrLine))
			} else if n == maxStderrLines+1 {
				log.Debug("mcp server says more, which is not logged")
			}
		}
		for more && err == nil {
			_, more, err = b.ReadLine()
		}
		if err != nil {
			return
		}
	}
}
