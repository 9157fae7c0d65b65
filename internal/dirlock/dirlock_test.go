package dirlock_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/dirlock"
)

// holder makes the test binary hold a directory until it is killed.
const holder = "HOLDFAST_DIRLOCK_TEST_HOLDER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(holder); dir != "" {
		if _, err := dirlock.Acquire(dir, "a test"); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("held")
		time.Sleep(time.Minute)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestAcquire_OneHolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, err := dirlock.Acquire(dir, "the first")
	if err != nil {
		t.Fatal(err)
	}
	_, err = dirlock.Acquire(dir, "the second")
	held, ok := errors.AsType[*dirlock.HeldError](err)
	if !ok || !strings.HasPrefix(held.Holder, fmt.Sprintf("pid %d, the first, since ", os.Getpid())) {
		t.Errorf("second Acquire = %v, want a HeldError that names the first", err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	again, err := dirlock.Acquire(dir, "the third")
	if err != nil {
		t.Fatalf("after Release: %v", err)
	}
	if err := again.Release(); err != nil {
		t.Error(err)
	}
}

func TestAcquire_KilledHolderIsNoHolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), holder+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("child said %q, %v", line, err)
	}
	if _, err := dirlock.Acquire(dir, "a test"); err == nil {
		t.Error("a directory held by another process was taken")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait() // killed
	l, err := dirlock.Acquire(dir, "a test")
	if err != nil {
		t.Fatalf("after kill -9 of the holder: %v", err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}

func TestAcquire_NeedsTheDirectory(t *testing.T) {
	t.Parallel()
	if _, err := dirlock.Acquire(t.TempDir()+"/absent", "x"); err == nil {
		t.Error("locked a directory that does not exist")
	}
}
