package failpoint_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/failpoint"
)

// victim makes the test binary pass a failpoint and exit 0 when it survives.
const victim = "HOLDFAST_FAILPOINT_TEST_VICTIM"

func TestMain(m *testing.M) {
	if key := os.Getenv(victim); key != "" {
		for {
			if err := failpoint.Hit("tools.acted", key); err != nil {
				os.Exit(3)
			}
			if key != "again" {
				os.Exit(0)
			}
		}
	}
	os.Exit(m.Run())
}

func TestHit_Kill(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	run := func(key, spec string) error {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), victim+"="+key, failpoint.Env+"="+spec, failpoint.EnvLog+"="+log)
		return cmd.Run()
	}
	if err := run("run 7 shop-05", "tools.acted[shop-04]=kill"); err != nil {
		t.Errorf("another key: %v, want to survive", err)
	}
	err := run("run 7 shop-04", "other=error;tools.acted[shop-04]=kill")
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("matching key: %v, want death by SIGKILL", err)
	}
	got, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("failpoint tools.acted run 7 shop-04\n", string(got)); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	if err := run("x", "tools.acted=explode"); err == nil {
		t.Error("a misspelt action was ignored")
	}
}

func TestArm_CountsMatchingHits(t *testing.T) {
	t.Parallel()
	disarm, err := failpoint.Arm("count[b]=error:late#2; count[always]=error#*", "")
	if err != nil {
		t.Fatal(err)
	}
	var got []bool
	for _, key := range []string{"a", "b1", "a", "b2", "b3", "always", "always"} {
		err := failpoint.Hit("count", key)
		got = append(got, err != nil)
		if err != nil && !errors.Is(err, failpoint.ErrInjected) {
			t.Errorf("error of %q is %v, want ErrInjected in its chain", key, err)
		}
	}
	if diff := cmp.Diff([]bool{false, false, false, true, false, true, true}, got); diff != "" {
		t.Errorf("fired (-want +got):\n%s", diff)
	}
	disarm()
	if err := failpoint.Hit("count", "always"); err != nil {
		t.Errorf("after disarm: %v", err)
	}
}

func TestArm_Sleep(t *testing.T) {
	t.Parallel()
	disarm, err := failpoint.Arm("nap=sleep:30ms", "")
	if err != nil {
		t.Fatal(err)
	}
	defer disarm()
	began := time.Now()
	if err := failpoint.Hit("nap", ""); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 30*time.Millisecond {
		t.Errorf("slept %s, want 30ms", took)
	}
}

func TestArm_RefusesMistakes(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"x", "=kill", "x=boom", "x[y=kill", "x[y]kill", "x=kill#0", "x=kill#z", "x=sleep:soon"} {
		if _, err := failpoint.Arm(spec, ""); err == nil || !strings.Contains(err.Error(), spec) {
			t.Errorf("Arm(%q) = %v, want an error that shows it", spec, err)
		}
	}
}

func BenchmarkHit_NothingArmed(b *testing.B) {
	for b.Loop() {
		_ = failpoint.Hit("x", "y")
	}
}

func TestFile_ArmsAProcessThatRuns(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "points")
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), victim+"=again", failpoint.Env+"=@"+path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("other=error;tools.acted=kill#2"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("%v, want death by SIGKILL once the file says so", err)
	}
}
