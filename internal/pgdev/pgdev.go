// Package pgdev runs a private PostgreSQL from the binaries that the machine
// has, for development, tests and the demo.
//
// It guarantees that nothing else on the machine is disturbed: the server
// listens on a unix socket in a directory of its own and on no port, one
// process at a time uses a data directory, and the server ends when the process
// that started it does, even by kill -9. Started by root it runs as another
// user, because PostgreSQL refuses root.
package pgdev

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/dirlock"
	"github.com/holdfast-run/holdfast/internal/watchdog"
)

const (
	// superuser and database exist in every cluster made here.
	superuser = "holdfast"
	database  = "holdfast"
	// port only names the socket file; the directory is ours alone.
	port = 5432
)

// Config places one server.
type Config struct {
	// Dir holds the cluster, its log and its lock; created when absent. When
	// root starts the server and the user it drops to cannot reach Dir, the
	// cluster lives in /var/lib/holdfast and Dir has a link to it. A cluster
	// there whose Dir was deleted is removed by the next start that needs one.
	Dir string
	Log *slog.Logger // nil = silent
	// Throwaway makes a cluster that may be lost in a power failure and is
	// removed by Stop: fsync off, nothing else. For tests only.
	Throwaway bool
	// MaxConnections is 200 when zero.
	MaxConnections int
}

// Server is a running server. Its methods are safe for concurrent use.
type Server struct {
	c         Config
	home      *home
	bin       *binaries
	lock      *dirlock.Lock
	cmd       *exec.Cmd
	watch     *watchdog.Watchdog
	exited    chan struct{} // closed when postgres has ended
	exitErr   error         // valid once exited is closed
	log       *os.File
	stop      sync.Once
	stopping  atomic.Bool
	stopErr   error
	created   bool
	startedAt time.Time
}

// Start returns when the server answers. It makes the cluster first when Dir
// has none, which takes about a second; else it takes well under one. A
// directory in use gives a *dirlock.HeldError, a machine without PostgreSQL
// ErrNotInstalled.
func Start(ctx context.Context, c Config) (*Server, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.MaxConnections == 0 {
		c.MaxConnections = 200
	}
	if c.Dir == "" {
		return nil, errors.New("pgdev: no data directory")
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("pgdev: %w", err)
	}
	c.Dir = dir
	cred, err := unprivileged()
	if err != nil {
		return nil, fmt.Errorf("pgdev: %w", err)
	}
	// Others may pass through, because the server's user must; none may look.
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, fmt.Errorf("pgdev: %w", err)
	}
	if cred != nil {
		if err := os.Chmod(dir, 0o711); err != nil { // whatever the umask was
			return nil, fmt.Errorf("pgdev: %w", err)
		}
	}
	lock, err := dirlock.Acquire(dir, "PostgreSQL")
	if err != nil {
		return nil, err
	}
	s := &Server{c: c, lock: lock, exited: make(chan struct{}), startedAt: time.Now()}
	if err := s.start(ctx, cred); err != nil {
		return nil, errors.Join(fmt.Errorf("pgdev: %w", err), lock.Release())
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, cred *syscall.Credential) (err error) {
	if s.home, err = openHome(ctx, s.c.Dir, cred, s.c.Throwaway); err != nil {
		return err
	}
	if s.bin, err = findBinaries(ctx, s.home.version()); err != nil {
		return err
	}
	if s.created, err = s.initialise(ctx, cred); err != nil {
		return err
	}
	if err := clearPredecessor(ctx, s.home.data, 20*time.Second); err != nil {
		return err
	}
	if s.log, err = openLog(filepath.Join(s.c.Dir, "postgres.log")); err != nil {
		return err
	}
	if err := s.launch(cred); err != nil {
		return errors.Join(err, s.log.Close())
	}
	if err := s.awaitReady(ctx); err != nil {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		s.terminate(stop)
		return errors.Join(err, s.log.Close())
	}
	s.c.Log.Debug("postgres is ready", "dir", s.home.data, "version", s.bin.version, "created", s.created, "took", time.Since(s.startedAt))
	return nil
}

// command builds a command of the same version that dies with this process.
func (s *Server) command(cred *syscall.Credential, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin.dir, name), args...)
	cmd.Dir = s.home.data
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC", "PATH=/usr/local/bin:/usr/bin:/bin"}
	cmd.SysProcAttr = procAttr(cred)
	return cmd
}

// initialise makes the cluster under another name and renames it when it is
// complete, so that a kill in between leaves nothing that looks like one.
func (s *Server) initialise(ctx context.Context, cred *syscall.Credential) (created bool, err error) {
	if s.home.version() != 0 {
		return false, nil
	}
	fresh := s.home.data + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return false, err
	}
	if err := s.home.mkdir(fresh); err != nil {
		return false, err
	}
	args := []string{"-D", fresh, "-U", superuser, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-instructions"}
	if s.c.Throwaway {
		args = append(args, "--no-sync")
	}
	initdb := s.command(cred, "initdb", args...)
	initdb.Dir = fresh
	if err := runPinned(ctx, initdb); err != nil {
		return false, err
	}
	single := s.command(cred, "postgres", "--single", "-D", fresh, "postgres")
	single.Dir = fresh
	single.Stdin = strings.NewReader("CREATE DATABASE " + database + "\n")
	if err := runPinned(ctx, single); err != nil {
		return false, err
	}
	if err := os.RemoveAll(s.home.data); err != nil { // empty, or without PG_VERSION
		return false, err
	}
	return true, os.Rename(fresh, s.home.data)
}

// runPinned runs cmd to its end on a thread that stays: the kernel signals the
// child when the thread that started it ends, not the process.
func runPinned(ctx context.Context, cmd *exec.Cmd) error {
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	done := make(chan error, 1)
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			done <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("run %s: %w", cmd.Path, err)
	}
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended just now
		<-done
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("run %s: %w\n%s", cmd.Path, err, out.String())
	}
	return nil
}

func (s *Server) launch(cred *syscall.Credential) error {
	args := []string{"-D", s.home.data, "-k", s.home.sockets, "-p", strconv.Itoa(port),
		"-c", "listen_addresses=",
		"-c", "max_connections=" + strconv.Itoa(s.c.MaxConnections),
		"-c", "synchronous_commit=on",
		"-c", "jit=off",
		"-c", "log_line_prefix=%m [%p] %q%a ",
	}
	if s.c.Throwaway {
		args = append(args, "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_wal_size=4GB")
	}
	s.cmd = s.command(cred, "postgres", args...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // see runPinned
		defer runtime.UnlockOSThread()
		err := s.cmd.Start()
		started <- err
		if err == nil {
			s.exitErr = s.cmd.Wait()
			close(s.exited)
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("run %s: %w", s.cmd.Path, err)
	}
	if !diesWithParent {
		var err error
		if s.watch, err = watchdog.Process(s.cmd.Process.Pid); err != nil {
			stop, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			s.terminate(stop)
			return err
		}
	}
	return nil
}

// awaitReady polls postmaster.pid: its first line is the pid, its eighth the
// state. Source: PostgreSQL, src/include/utils/pidfile.h.
func (s *Server) awaitReady(ctx context.Context) error {
	path := filepath.Join(s.home.data, "postmaster.pid")
	pid := strconv.Itoa(s.cmd.Process.Pid)
	for {
		if b, err := os.ReadFile(path); err == nil {
			l := strings.Split(string(b), "\n")
			if len(l) >= 8 && strings.TrimSpace(l[0]) == pid && strings.HasPrefix(l[7], "ready") {
				return nil
			}
		}
		select {
		case <-s.exited:
			return fmt.Errorf("postgres ended while it started: %w; the end of %s says:\n%s", exitReason(s.exitErr), s.log.Name(), tail(s.log.Name()))
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// URL connects as the superuser to the database "holdfast".
func (s *Server) URL() config.Secret {
	q := url.Values{"host": {s.home.sockets}, "port": {strconv.Itoa(port)}, "sslmode": {"disable"}}
	u := url.URL{Scheme: "postgres", User: url.User(superuser), Path: "/" + database, RawQuery: q.Encode()}
	return config.Secret(u.String())
}

// Created reports whether this start made the cluster.
func (s *Server) Created() bool { return s.created }

// DataDir is where the cluster lives; below Config.Dir unless its user could
// not reach that.
func (s *Server) DataDir() string { return s.home.data }

// Version is the major version, 15 for instance.
func (s *Server) Version() int { return s.bin.version }

// LogFile is where the server writes.
func (s *Server) LogFile() string { return filepath.Join(s.c.Dir, "postgres.log") }

// Exited is closed when the server has ended, asked or not.
func (s *Server) Exited() <-chan struct{} { return s.exited }

// Run blocks until ctx is done or Stop has ended the server. A server that ends
// by itself is an error.
func (s *Server) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.exited:
		if s.stopping.Load() {
			return nil
		}
		return fmt.Errorf("postgres ended: %w; see %s", exitReason(s.exitErr), s.LogFile())
	}
}

// Stop ends the server: open sessions are rolled back and the data is written.
// When ctx ends first it is cut short, and the next start recovers from the
// log. It returns when the process is gone and the directory is free. Further
// calls return the first one's result.
func (s *Server) Stop(ctx context.Context) error {
	s.stopping.Store(true)
	s.stop.Do(func() {
		clean := s.terminate(ctx)
		var errs []error
		if !clean {
			errs = append(errs, fmt.Errorf("pgdev: %w", exitReason(s.exitErr)))
		}
		errs = append(errs, s.log.Close(), s.home.close(s.c.Throwaway), s.lock.Release())
		if s.c.Throwaway {
			errs = append(errs, os.RemoveAll(s.c.Dir))
		}
		s.stopErr = errors.Join(errs...)
	})
	return s.stopErr
}

// terminate escalates: fast shutdown (SIGINT), immediate (SIGQUIT), SIGKILL.
func (s *Server) terminate(ctx context.Context) (clean bool) {
	defer s.watch.Close()
	for _, step := range []struct {
		sig   syscall.Signal
		until <-chan struct{}
	}{
		{syscall.SIGINT, ctx.Done()},
		{syscall.SIGQUIT, after(5 * time.Second)},
		{syscall.SIGKILL, nil},
	} {
		_ = s.cmd.Process.Signal(step.sig) // "already finished" shows below
		select {
		case <-s.exited:
			return s.exitErr == nil
		case <-step.until:
			s.c.Log.Warn("postgres does not stop", "signal", step.sig.String())
		}
	}
	return false
}

func after(d time.Duration) <-chan struct{} {
	c := make(chan struct{})
	time.AfterFunc(d, func() { close(c) })
	return c
}

func exitReason(err error) error {
	if err == nil {
		return errors.New("it was shut down from outside")
	}
	return err
}
