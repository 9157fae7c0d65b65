package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-run/holdfast/internal/config"
)

// doorProcess is the trigger service as operators run it, in a process of its own.
type doorProcess struct {
	addr string
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when it has ended
}

// openDoor starts the trigger and returns when it is ready.
func openDoor(ctx context.Context, c Config, dir string, database, nats config.Secret) (*doorProcess, error) {
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	d := &doorProcess{addr: ports[0], log: filepath.Join(dir, "trigger.log"), done: make(chan struct{})}
	log, err := os.Create(d.log)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own descriptor
	d.cmd = exec.Command(c.Binary, "serve", "trigger", "--listen", ports[0], "--health-listen", ports[1])
	d.cmd.Env = append(withoutSettings(c.Env), "HOLDFAST_DATABASE_URL="+database.Reveal(), "HOLDFAST_NATS_URL="+nats.Reveal(), SecretEnv+"="+secret)
	d.cmd.Args[0] = "holdfast" // whatever its file is called
	d.cmd.Stdout, d.cmd.Stderr, d.cmd.SysProcAttr = log, log, processAttributes()
	started := make(chan error)
	go func() {
		// The kernel counts the thread that started a child as its parent.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := d.cmd.Start()
		started <- err
		if err == nil {
			_ = d.cmd.Wait() // the state says it all
			close(d.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start trigger: %w", err)
	}
	if err := d.awaitReady(ctx, "http://"+ports[1]+"/ready"); err != nil {
		return nil, errors.Join(err, d.close(ctx))
	}
	return d, nil
}

// withoutSettings keeps what configures Holdfast out of the measured process.
func withoutSettings(env []string) (kept []string) {
	for _, kv := range env {
		if !strings.HasPrefix(kv, "HOLDFAST_") {
			kept = append(kept, kv)
		}
	}
	return kept
}

func (d *doorProcess) awaitReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
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
		case <-d.done:
			return fmt.Errorf("the trigger ended while it started (%s):\n%s", d.cmd.ProcessState, d.tail())
		case <-ctx.Done():
			return fmt.Errorf("the trigger is not ready: %w\n%s", ctx.Err(), d.tail())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// close ends the process, at the latest after 15 s.
func (d *doorProcess) close(context.Context) error {
	_ = d.cmd.Process.Signal(syscall.SIGTERM) // "already finished" shows below
	select {
	case <-d.done:
		return nil
	case <-time.After(15 * time.Second):
		err := d.cmd.Process.Kill()
		<-d.done
		return errors.Join(errors.New("the trigger did not end by itself"), err)
	}
}

// tail is the end of the process's log.
func (d *doorProcess) tail() string {
	b, err := os.ReadFile(d.log)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-2000):])
}

// freePorts finds addresses that nobody listens on now.
func freePorts(n int) (addrs []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // all are held until the last is found, so none comes twice
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}
