package pgdev_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/dirlock"
	"github.com/holdfast-run/holdfast/internal/pgdev"
)

// host makes the test binary start a server in the named directory, say where
// it is in one JSON line, and wait to be killed or for the end of its input.
const host = "HOLDFAST_PGDEV_TEST_HOST"

// hosted is that line.
type hosted struct {
	Pid int
	URL string
	Dir string
	UID int
}

func TestMain(m *testing.M) {
	if dir := os.Getenv(host); dir != "" {
		if err := hostServer(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func hostServer(dir string) error {
	ctx := context.Background()
	s, err := pgdev.Start(ctx, pgdev.Config{Dir: dir})
	if err != nil {
		return err
	}
	pid, err := postmaster(s)
	if err != nil {
		return err
	}
	err = json.NewEncoder(os.Stdout).Encode(hosted{Pid: pid, URL: s.URL().Reveal(), Dir: s.DataDir(), UID: os.Geteuid()})
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return s.Stop(ctx)
}

func postmaster(s *pgdev.Server) (int, error) {
	b, err := os.ReadFile(filepath.Join(s.DataDir(), "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return strconv.Atoi(line)
}

// requirePostgres skips on a machine without PostgreSQL, unless CI is set.
func requirePostgres(t *testing.T) {
	t.Helper()
	if _, _, err := pgdev.Installed(t.Context()); errors.Is(err, pgdev.ErrNotInstalled) && os.Getenv("CI") == "" {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
}

// openDir makes a directory that every user may pass through.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pgdev-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

func start(t *testing.T, c pgdev.Config) *pgdev.Server {
	t.Helper()
	requirePostgres(t)
	s, err := pgdev.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return s
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func query(t *testing.T, url, sql string) string {
	t.Helper()
	var v string
	if err := connect(t, url).QueryRow(t.Context(), sql).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func stop(t *testing.T, s *pgdev.Server) {
	t.Helper()
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestStart_KeepsDataBetweenStarts(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openDir(t), "a", "pg")
	s := start(t, pgdev.Config{Dir: dir})
	if !s.Created() || s.DataDir() != filepath.Join(dir, "data") {
		t.Errorf("Created %v in %s, want a new cluster in %s/data", s.Created(), s.DataDir(), dir)
	}
	url := s.URL().Reveal()
	for sql, want := range map[string]string{
		"SELECT current_user || '@' || current_database()": "holdfast@holdfast",
		"SHOW synchronous_commit":                          "on",
		"SHOW fsync":                                       "on",
		"SHOW full_page_writes":                            "on",
		"SHOW listen_addresses":                            "",
		"SHOW server_encoding":                             "UTF8",
		"SHOW max_connections":                             "200",
	} {
		if got := query(t, url, sql); got != want {
			t.Errorf("%s = %q, want %q", sql, got, want)
		}
	}
	if _, err := connect(t, url).Exec(t.Context(), "CREATE TABLE kept AS SELECT 'here' AS v"); err != nil {
		t.Fatal(err)
	}
	stop(t, s)
	stop(t, s) // a second call does nothing
	began := time.Now()
	again := start(t, pgdev.Config{Dir: dir})
	if took := time.Since(began); again.Created() || took > 3*time.Second {
		t.Errorf("second start: created %v after %s; want the old cluster within 3s", again.Created(), took)
	}
	if got := query(t, again.URL().Reveal(), "SELECT v FROM kept"); got != "here" {
		t.Errorf("kept = %q", got)
	}
}

func TestStart_OneServerPerDirectory(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	start(t, pgdev.Config{Dir: dir, Throwaway: true})
	_, err := pgdev.Start(t.Context(), pgdev.Config{Dir: dir})
	held, ok := errors.AsType[*dirlock.HeldError](err)
	if !ok || !strings.Contains(held.Error(), fmt.Sprintf("pid %d, PostgreSQL", os.Getpid())) {
		t.Errorf("second server = %v, want a HeldError that names the holder", err)
	}
}

func TestStart_ThrowawayLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "pg") // root's user cannot reach it
	s := start(t, pgdev.Config{Dir: dir, Throwaway: true})
	if got := query(t, s.URL().Reveal(), "SHOW fsync"); got != "off" {
		t.Errorf("fsync = %s, want off", got)
	}
	if got := query(t, s.URL().Reveal(), "SHOW synchronous_commit"); got != "on" {
		t.Errorf("synchronous_commit = %s, want on", got)
	}
	stop(t, s)
	for _, p := range []string{dir, s.DataDir(), filepath.Dir(s.DataDir())} {
		if _, err := os.Stat(p); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left (%v)", p, err)
		}
	}
}

func TestStart_LongPath(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openDir(t), strings.Repeat("long-", 20), "pg")
	s := start(t, pgdev.Config{Dir: dir, Throwaway: true})
	if got := query(t, s.URL().Reveal(), "SELECT 'ok'"); got != "ok" {
		t.Error(got)
	}
	sockets := query(t, s.URL().Reveal(), "SHOW unix_socket_directories")
	if strings.HasPrefix(sockets, dir) {
		t.Fatalf("socket in %s: the test wants a path that is too long", sockets)
	}
	info, err := os.Stat(sockets)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o700 {
		t.Errorf("mode of the socket's directory %s, want 0700", info.Mode())
	}
	stop(t, s)
	if _, err := os.Stat(sockets); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left (%v)", sockets, err)
	}
}

func TestStart_StalePidFileOfAnotherProcess(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	s := start(t, pgdev.Config{Dir: dir})
	stop(t, s)
	// As after a crash and a restart of the machine: the number is taken.
	pidFile := filepath.Join(s.DataDir(), "postmaster.pid")
	if err := os.WriteFile(pidFile, fmt.Appendf(nil, "%d\n%s\n", os.Getpid(), s.DataDir()), 0o600); err != nil {
		t.Fatal(err)
	}
	again := start(t, pgdev.Config{Dir: dir})
	if got := query(t, again.URL().Reveal(), "SELECT 'ok'"); got != "ok" {
		t.Error(got)
	}
}

func TestRun_ReportsAServerThatEnded(t *testing.T) {
	t.Parallel()
	requirePostgres(t)
	s, err := pgdev.Start(t.Context(), pgdev.Config{Dir: openDir(t), Throwaway: true})
	if err != nil {
		t.Fatal(err)
	}
	pid, err := postmaster(s)
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- s.Run(t.Context()) }()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ran:
		if err == nil || !strings.Contains(err.Error(), "killed") {
			t.Errorf("Run = %v, want that it was killed", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("Run did not notice")
	}
	if err := s.Stop(t.Context()); err == nil {
		t.Error("Stop is content with a server that was killed")
	}
}

// spawn runs the test binary as a host of dir.
func spawn(t *testing.T, dir string, cred *syscall.Credential) (*exec.Cmd, io.Closer, hosted) {
	t.Helper()
	requirePostgres(t)
	binary := os.Args[0]
	if cred != nil { // go test's own directory is closed to others
		binary = filepath.Join(openDir(t), "host")
		b, err := os.ReadFile(os.Args[0])
		if err != nil {
			t.Fatal(err)
		}
		// A process that another test forks meanwhile would hold the file open for
		// writing, and what is written to cannot be executed.
		syscall.ForkLock.RLock()
		err = os.WriteFile(binary, b, 0o755)
		syscall.ForkLock.RUnlock()
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), host + "=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var h hosted
	if err := json.Unmarshal(line, &h); err != nil {
		t.Fatal(err)
	}
	return cmd, in, h
}

func gone(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ") // nobody reaps orphans here
}

func TestKill9OfTheParent(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	for round := range 2 {
		cmd, _, h := spawn(t, dir, nil)
		conn := connect(t, h.URL)
		if round == 0 {
			if _, err := conn.Exec(t.Context(), "CREATE TABLE kept (round int)"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := conn.Exec(t.Context(), "INSERT INTO kept VALUES ($1)", round); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // killed
		if round == 1 {
			for deadline := time.Now().Add(20 * time.Second); !gone(h.Pid); time.Sleep(5 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("postgres %d outlives its parent", h.Pid)
				}
			}
		} // in the other round the next start meets the server while it stops
	}
	s := start(t, pgdev.Config{Dir: dir})
	if got := query(t, s.URL().Reveal(), "SELECT string_agg(round::text, ',' ORDER BY round) FROM kept"); got != "0,1" {
		t.Errorf("rounds %q, want 0,1", got)
	}
}

func TestStart_AsAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		// Every other test covers this case already when root does not run it.
		s := start(t, pgdev.Config{Dir: openDir(t), Throwaway: true})
		if got := query(t, s.URL().Reveal(), "SELECT 'ok'"); got != "ok" {
			t.Error(got)
		}
		return
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		t.Fatal(err)
	}
	dir := openDir(t)
	cmd, in, h := spawn(t, filepath.Join(dir, "pg"), &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)})
	if h.UID != uid {
		t.Fatalf("the host runs as %d, want %d", h.UID, uid)
	}
	if got := query(t, h.URL, "SELECT 'ok'"); got != "ok" {
		t.Error(got)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("host: %v", err)
	}
	if !gone(h.Pid) {
		t.Error("postgres outlives its host's Stop")
	}
}
