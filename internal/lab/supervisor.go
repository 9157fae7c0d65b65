package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-run/holdfast/internal/failpoint"
)

// Program says how one process is run.
type Program struct {
	Name  string // "runner-1"
	Role  string // "runner"
	Args  []string
	Env   []string
	Ready string // URL that answers 200 when it is ready
	// Binary is run instead of the supervisor's; empty: that one.
	Binary string
	// Failpoint is armed in the next process only: "trigger.committed=kill".
	Failpoint string
	// Failpoints is a file that arms a process while it runs; see internal/failpoint.
	Failpoints string
}

// Death is one process that ended while the scenario ran.
type Death struct {
	Process string        `json:"process"`
	Role    string        `json:"role"`
	Pid     int           `json:"pid"`
	Signal  string        `json:"signal"` // SIGKILL, SIGTERM, or "none" when it ended by itself
	Point   string        `json:"point"`  // what was going on
	At      time.Time     `json:"at"`
	Exit    string        `json:"exit"` // "signal: killed", "exit status 0"
	Took    time.Duration `json:"-"`    // from the signal to the end
	Wanted  bool          `json:"wanted"`
}

// process is one running child.
type process struct {
	Program
	pid   int
	cmd   *exec.Cmd
	done  chan struct{} // closed when it has ended
	state *os.ProcessState
	// logged is how much the log of its failpoints held when it was started.
	logged int64

	mu     sync.Mutex
	signal string // what we sent last
	point  string
	sentAt time.Time
}

// Supervisor runs the services as processes of one binary. It restarts nothing
// by itself. It is safe for concurrent use.
type Supervisor struct {
	binary string
	dir    string // logs

	mu      sync.Mutex
	live    map[string]*process
	specs   map[string]Program
	starts  map[string]int
	deaths  []Death
	closing bool
}

func NewSupervisor(binary, dir string) *Supervisor {
	return &Supervisor{binary: binary, dir: dir, live: map[string]*process{}, specs: map[string]Program{}, starts: map[string]int{}}
}

// Start runs sp and returns when it is ready, at the latest after 30 s.
func (s *Supervisor) Start(ctx context.Context, sp Program) error {
	p, err := s.spawn(sp)
	if err != nil {
		return fmt.Errorf("start %s: %w", sp.Name, err)
	}
	return s.waitReady(ctx, p)
}

// Restart runs a process again that has ended.
func (s *Supervisor) Restart(ctx context.Context, name string) error {
	return s.RestartArmed(ctx, name, "")
}

// RestartArmed is Restart with a failpoint, which makes the process end by
// itself when it passes there.
func (s *Supervisor) RestartArmed(ctx context.Context, name, point string) error {
	s.mu.Lock()
	sp, ok := s.specs[name]
	_, alive := s.live[name]
	s.mu.Unlock()
	switch {
	case !ok:
		return fmt.Errorf("restart %s: never started", name)
	case alive:
		return fmt.Errorf("restart %s: still running", name)
	}
	sp.Failpoint = point
	return s.Start(ctx, sp)
}

// AwaitEnd waits until a process that runs now, if any, has ended.
func (s *Supervisor) AwaitEnd(name string, limit time.Duration) error {
	s.mu.Lock()
	p := s.live[name]
	s.mu.Unlock()
	if p == nil {
		return nil
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(limit):
		return fmt.Errorf("%s did not reach its failpoint %s within %v", name, p.Failpoint, limit)
	}
}

// Alive is closed when the process that has this name now ends; closed already when
// none runs.
func (s *Supervisor) Alive(name string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.live[name]; p != nil {
		return p.done
	}
	none := make(chan struct{})
	close(none)
	return none
}

func (s *Supervisor) spawn(sp Program) (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil, errors.New("everything is being ended")
	}
	s.starts[sp.Name]++
	log, err := os.OpenFile(filepath.Join(s.dir, fmt.Sprintf("%s.%d.log", sp.Name, s.starts[sp.Name])), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own descriptor
	cmd := exec.Command(cmp.Or(sp.Binary, s.binary), sp.Args...)
	cmd.Args[0] = "holdfast" // whatever its file is called
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr, cmd.Dir = sp.Env, log, log, ProcessAttributes(), s.dir
	switch {
	case sp.Failpoint != "":
		cmd.Env = append(cmd.Env[:len(cmd.Env):len(cmd.Env)], failpoint.Env+"="+sp.Failpoint, failpoint.EnvLog+"="+s.failpointLog(sp.Name))
	case sp.Failpoints != "":
		cmd.Env = append(cmd.Env[:len(cmd.Env):len(cmd.Env)], failpoint.Env+"=@"+sp.Failpoints, failpoint.EnvLog+"="+s.failpointLog(sp.Name))
	}
	p := &process{Program: sp, cmd: cmd, done: make(chan struct{})}
	if info, err := os.Stat(s.failpointLog(sp.Name)); err == nil {
		p.logged = info.Size()
	}
	started := make(chan error)
	go func() {
		// The kernel counts the thread that started a child as its parent.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the state says it all
			s.ended(p)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	p.pid = cmd.Process.Pid
	sp.Failpoint = ""
	s.specs[sp.Name] = sp
	s.live[sp.Name] = p
	return p, nil
}

func (s *Supervisor) ended(p *process) {
	p.mu.Lock()
	d := Death{
		Process: p.Name, Role: p.Role, Pid: p.cmd.Process.Pid, Signal: p.signal, Point: p.point, At: p.sentAt,
		Exit: p.cmd.ProcessState.String(), Wanted: p.signal != "",
	}
	p.mu.Unlock()
	if !d.Wanted {
		d.Signal, d.At, d.Point = "none", time.Now(), "ended by itself"
		if b, err := os.ReadFile(s.failpointLog(p.Name)); p.Failpoint+p.Failpoints != "" && err == nil && int64(len(b)) > p.logged {
			d.Signal, d.Point, d.Wanted = "SIGKILL", strings.TrimSpace(string(b[p.logged:])), true
		}
	}
	d.Took = time.Since(d.At)
	s.mu.Lock()
	if s.live[p.Name] == p {
		delete(s.live, p.Name)
	}
	if !s.closing {
		s.deaths = append(s.deaths, d)
	}
	s.mu.Unlock()
	p.state = p.cmd.ProcessState
	close(p.done)
}

func (s *Supervisor) waitReady(ctx context.Context, p *process) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		if httpOK(ctx, p.Ready) {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended while it started (%s):\n%s", p.Name, p.state, s.LogTail(p.Name))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %s does not answer 200: %w\n%s", p.Name, p.Ready, ctx.Err(), s.LogTail(p.Name))
		case <-time.After(15 * time.Millisecond):
		}
	}
}

func httpOK(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// Kill sends SIGKILL and returns when the process is gone, with the moment
// right before the signal.
func (s *Supervisor) Kill(name, point string) (time.Time, error) {
	p, at, err := s.send(name, point, syscall.SIGKILL)
	if err != nil {
		return time.Time{}, err
	}
	<-p.done
	return at, nil
}

// Term sends SIGTERM and waits for a clean exit, at most for grace; after that
// the process is killed and an error returned.
func (s *Supervisor) Term(name, point string, grace time.Duration) error {
	p, _, err := s.send(name, point, syscall.SIGTERM)
	if err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-time.After(grace):
		_ = p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("%s did not end within %v of SIGTERM", name, grace)
	}
	if !p.state.Success() {
		return fmt.Errorf("%s ended with %s after SIGTERM, want exit status 0", name, p.state)
	}
	return nil
}

// Signal sends a signal that is not meant to end the process, SIGSTOP for instance.
func (s *Supervisor) Signal(name string, sig syscall.Signal) error {
	s.mu.Lock()
	p := s.live[name]
	s.mu.Unlock()
	if p == nil {
		return fmt.Errorf("signal %s: it is not running", name)
	}
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("signal %s: %w", name, err)
	}
	return nil
}

func (s *Supervisor) send(name, point string, sig syscall.Signal) (*process, time.Time, error) {
	s.mu.Lock()
	p := s.live[name]
	s.mu.Unlock()
	if p == nil {
		return nil, time.Time{}, fmt.Errorf("signal %s: it is not running", name)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at := time.Now()
	p.signal, p.point, p.sentAt = signalName(sig), point, at
	if err := p.cmd.Process.Signal(sig); err != nil {
		return nil, time.Time{}, fmt.Errorf("signal %s: %w", name, err)
	}
	return p, at, nil
}

func signalName(sig syscall.Signal) string {
	switch sig {
	case syscall.SIGKILL:
		return "SIGKILL"
	case syscall.SIGTERM:
		return "SIGTERM"
	}
	return sig.String()
}

// ByPid names the running process with that pid.
func (s *Supervisor) ByPid(pid int) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, p := range s.live {
		if p.pid == pid {
			return name, true
		}
	}
	return "", false
}

// Pid is the process that has this name now; 0: none.
func (s *Supervisor) Pid(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.live[name]; p != nil {
		return p.pid
	}
	return 0
}

// Running lists the names of the live processes of a role.
func (s *Supervisor) Running(role string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, p := range s.live {
		if p.Role == role {
			names = append(names, p.Name)
		}
	}
	return names
}

func (s *Supervisor) Deaths() []Death {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Death(nil), s.deaths...)
}

func (s *Supervisor) failpointLog(name string) string { return filepath.Join(s.dir, name+".failpoint") }

// LogTail is the end of the newest log of a process.
func (s *Supervisor) LogTail(name string) string {
	s.mu.Lock()
	path := filepath.Join(s.dir, fmt.Sprintf("%s.%d.log", name, s.starts[name]))
	s.mu.Unlock()
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if len(b) > 2000 {
		b = b[len(b)-2000:]
	}
	return strings.TrimSpace(string(b))
}

// Close ends every process: SIGTERM, then SIGKILL after grace. Ends from here on
// are no deaths of the scenario. The order is that of roles, last first.
func (s *Supervisor) Close(grace time.Duration, roles []string) {
	s.mu.Lock()
	s.closing = true
	live := make(map[string][]*process)
	for _, p := range s.live {
		live[p.Role] = append(live[p.Role], p)
	}
	s.mu.Unlock()
	deadline := time.After(grace)
	late := false
	for i := len(roles) - 1; i >= 0; i-- {
		for _, p := range live[roles[i]] {
			_ = p.cmd.Process.Signal(syscall.SIGTERM)
		}
		for _, p := range live[roles[i]] {
			if !late {
				select {
				case <-p.done:
					continue
				case <-deadline:
					late = true
				}
			}
			_ = p.cmd.Process.Kill()
			<-p.done
		}
	}
}
