package watchdog

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestWatchdog(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		start func(int) (*Watchdog, error)
		by    string
	}{
		"a process": {Process, "interrupt"},
		"a group":   {Group, "killed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			victim := func() (*exec.Cmd, chan error) {
				cmd := exec.CommandContext(t.Context(), "sleep", "60")
				cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				done := make(chan error, 1)
				go func() { done <- cmd.Wait() }()
				return cmd, done
			}

			dies, died := victim()
			w, err := tc.start(dies.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.pipe.Close(); err != nil { // what the kernel does when we are killed
				t.Fatal(err)
			}
			select {
			case err := <-died:
				if err == nil || !strings.Contains(err.Error(), tc.by) {
					t.Errorf("ended with %v, want %s", err, tc.by)
				}
			case <-time.After(10 * time.Second):
				t.Error("the process outlives the end of the pipe")
			}
			_ = w.cmd.Wait()

			lives, lived := victim()
			if w, err = tc.start(lives.Process.Pid); err != nil {
				t.Fatal(err)
			}
			w.Close()
			select {
			case err := <-lived:
				t.Errorf("ended with %v although the watchdog was dismissed", err)
			default:
			}
			_ = lives.Process.Kill()
			<-lived
		})
	}
	(*Watchdog)(nil).Close()
}
