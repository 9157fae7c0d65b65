package lab

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/failpoint"
)

// helperEnv makes the test binary play a service: it listens on the address,
// answers 200 and ends on SIGTERM with the given code.
const helperEnv = "HOLDFAST_TEST_HELPER"

func TestMain(m *testing.M) {
	if addr := os.Getenv(helperEnv); addr != "" {
		os.Exit(helper(addr))
	}
	os.Exit(m.Run())
}

func helper(addr string) int {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	fmt.Println("helper started")
	if addr == "broken" {
		fmt.Println("cannot start: no such thing")
		return 3
	}
	go func() {
		_ = http.ListenAndServe(addr, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/crash":
				os.Exit(7)
			case "/act":
				_ = failpoint.Hit("helper.acted", "shop-01")
			}
		}))
	}()
	<-stop
	if strings.HasSuffix(os.Args[len(os.Args)-1], "stubborn") {
		select {}
	}
	return 0
}

func helperProgram(t *testing.T, name, role string, args ...string) Program {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	return Program{Name: name, Role: role, Args: args, Env: append(os.Environ(), helperEnv+"="+addr), Ready: "http://" + addr + "/"}
}

func setupSupervisor(t *testing.T) *Supervisor {
	t.Helper()
	s := NewSupervisor(os.Args[0], t.TempDir())
	t.Cleanup(func() { s.Close(time.Second, []string{"a", "b"}) })
	return s
}

func TestSupervisor_KillAndRestart(t *testing.T) {
	t.Parallel()
	s := setupSupervisor(t)
	if err := s.Start(t.Context(), helperProgram(t, "a-1", "a")); err != nil {
		t.Fatal(err)
	}
	pid := s.live["a-1"].pid
	if name, ok := s.ByPid(pid); !ok || name != "a-1" {
		t.Errorf("pid %d belongs to %q", pid, name)
	}
	before := time.Now()
	at, err := s.Kill("a-1", "a test")
	if err != nil || at.Before(before) || at.After(time.Now()) {
		t.Fatalf("kill at %v: %v", at, err)
	}
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("pid %d after the kill: %v", pid, err)
	}
	if _, ok := s.ByPid(pid); ok || len(s.Running("a")) != 0 {
		t.Error("a killed process counts as running")
	}
	if _, err := s.Kill("a-1", "again"); err == nil {
		t.Error("a dead process was killed again")
	}
	if err := s.Restart(t.Context(), "a-1"); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(t.Context(), "a-1"); err == nil {
		t.Error("a running process was started a second time")
	}
	d := s.Deaths()
	if len(d) != 1 || d[0].Signal != "SIGKILL" || d[0].Exit != "signal: killed" || d[0].Point != "a test" || !d[0].Wanted || d[0].Pid != pid || d[0].Role != "a" {
		t.Errorf("deaths %+v", d)
	}
}

func TestSupervisor_Term(t *testing.T) {
	t.Parallel()
	s := setupSupervisor(t)
	if err := s.Start(t.Context(), helperProgram(t, "a-1", "a")); err != nil {
		t.Fatal(err)
	}
	if err := s.Term("a-1", "deploy", 5*time.Second); err != nil {
		t.Errorf("term: %v", err)
	}
	if err := s.Start(t.Context(), helperProgram(t, "b-1", "b", "stubborn")); err != nil {
		t.Fatal(err)
	}
	if err := s.Term("b-1", "deploy", 50*time.Millisecond); err == nil || !strings.Contains(err.Error(), "did not end") {
		t.Errorf("a process that ignores SIGTERM: %v", err)
	}
	d := s.Deaths()
	if len(d) != 2 || d[0].Exit != "exit status 0" || d[0].Signal != "SIGTERM" || d[1].Exit != "signal: killed" {
		t.Errorf("deaths %+v", d)
	}
}

func TestSupervisor_UnwantedDeath(t *testing.T) {
	t.Parallel()
	s := setupSupervisor(t)
	sp := helperProgram(t, "a-1", "a")
	if err := s.Start(t.Context(), sp); err != nil {
		t.Fatal(err)
	}
	_, _ = http.Get(sp.Ready + "crash")
	for deadline := time.Now().Add(5 * time.Second); len(s.Deaths()) == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the death was not noticed")
		}
	}
	if d := s.Deaths()[0]; d.Wanted || d.Exit != "exit status 7" {
		t.Errorf("death %+v, want an unwanted one", d)
	}
}

func TestSupervisor_Failpoint(t *testing.T) {
	t.Parallel()
	s := setupSupervisor(t)
	sp := helperProgram(t, "a-1", "a")
	sp.Failpoint = "helper.acted=kill"
	if err := s.Start(t.Context(), sp); err != nil {
		t.Fatal(err)
	}
	if err := s.AwaitEnd("a-1", 20*time.Millisecond); err == nil {
		t.Error("the process ended before its failpoint")
	}
	_, _ = http.Get(sp.Ready + "act")
	if err := s.AwaitEnd("a-1", 5*time.Second); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the death noted", func() bool { return len(s.Deaths()) == 1 })
	if d := s.Deaths()[0]; !d.Wanted || d.Signal != "SIGKILL" || d.Point != "failpoint helper.acted shop-01" {
		t.Errorf("death %+v", d)
	}
	// Its successor is not armed.
	if err := s.Restart(t.Context(), "a-1"); err != nil {
		t.Fatal(err)
	}
	_, _ = http.Get(sp.Ready + "act")
	if len(s.Running("a")) != 1 {
		t.Error("the failpoint was armed a second time")
	}
}

func TestSupervisor_StartFails(t *testing.T) {
	t.Parallel()
	s := setupSupervisor(t)
	sp := helperProgram(t, "a-1", "a")
	sp.Env = append(sp.Env, helperEnv+"=broken")
	err := s.Start(t.Context(), sp)
	if err == nil || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("error %v, want one with the end of the log", err)
	}
}

func TestSupervisor_CloseLeavesNobody(t *testing.T) {
	t.Parallel()
	s := setupSupervisor(t)
	var pids []int
	for i, sp := range []Program{helperProgram(t, "a-1", "a"), helperProgram(t, "a-2", "a"), helperProgram(t, "b-1", "b", "stubborn")} {
		if err := s.Start(t.Context(), sp); err != nil {
			t.Fatal(err)
		}
		pids = append(pids, s.live[[]string{"a-1", "a-2", "b-1"}[i]].pid)
	}
	s.Close(200*time.Millisecond, []string{"a", "b"})
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
			t.Errorf("pid %d after close: %v", pid, err)
		}
	}
	if len(s.Deaths()) != 0 {
		t.Errorf("ends by close were counted as deaths: %+v", s.Deaths())
	}
	if err := s.Restart(t.Context(), "a-1"); err == nil {
		t.Error("a process was started after close")
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 5 s: %s", what)
		}
	}
}
