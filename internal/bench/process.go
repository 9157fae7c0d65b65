package bench

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// process is a service as operators run it, in a process of its own.
type process struct {
	name string
	addr string // of its door, when it has one
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when it has ended
}

// startProcess runs the binary and returns when it is ready: health is where it says
// so.
func startProcess(ctx context.Context, c Config, dir, name, health string, env, args []string) (*process, error) {
	p := &process{name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own descriptor
	p.cmd = exec.Command(c.Binary, append(args, "--health-listen", health)...)
	p.cmd.Env = append(withoutSettings(c.Env), env...)
	p.cmd.Args[0] = "holdfast" // whatever its file is called
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.SysProcAttr = log, log, processAttributes()
	started := make(chan error)
	go func() {
		// The kernel counts the thread that started a child as its parent.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // the state says it all
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if err := p.awaitReady(ctx, "http://"+health+"/ready"); err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

// withoutSettings keeps what configures Holdfast out of the measured processes.
func withoutSettings(env []string) (kept []string) {
	for _, kv := range env {
		if !strings.HasPrefix(kv, "HOLDFAST_") && !strings.HasPrefix(kv, "ANTHROPIC_") {
			kept = append(kept, kv)
		}
	}
	return kept
}

func (p *process) awaitReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if res, err := http.DefaultClient.Do(req); err == nil {
			_ = res.Body.Close() // only the status matters
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended while it started (%s):\n%s", p.name, p.cmd.ProcessState, p.tail())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w\n%s", p.name, ctx.Err(), p.tail())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// kill ends the process: what it has not finished is thrown away with its lab.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // "already finished" is fine
	<-p.done
}

// tail is the end of the process's log.
func (p *process) tail() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-2000):])
}
