package lab

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/holdfast-run/holdfast/internal/config"
)

// Roles are the services in the order in which they start.
var Roles = []string{"nats", "console", "trigger", "tools", "approvals", "runner", "edge"}

// ServicesConfig says what Holdfast's processes are given.
type ServicesConfig struct {
	Binary   string
	Database config.Secret
	Dir      string         // of the data of NATS, in a folder "nats"
	Env      []string       // besides BaseEnv and the addresses
	Replicas map[string]int // by role; absent means one
}

// Services is how Holdfast's processes are run: the same commands that an operator
// types, on ports of their own.
type Services struct {
	Token   string // of the first administrator
	Edge    string // URL of all doors
	NATS    string // address of the NATS that is started, "127.0.0.1:4711"
	NATSDir string
	// Env is what every process is given. Programs have a copy.
	Env      []string
	Programs []Program

	binary string
}

// NewServices plans the processes and gives each its ports; it starts nothing.
func NewServices(c ServicesConfig) (*Services, error) {
	s := &Services{Token: "hf_" + rand.Text(), NATSDir: filepath.Join(c.Dir, "nats"), binary: c.Binary}
	s.Env = append(append(BaseEnv(), "HOLDFAST_DATABASE_URL="+c.Database.Reveal()), c.Env...)
	return s, s.lay(c.Replicas)
}

// BaseEnv keeps what a process needs and nothing that configures Holdfast.
func BaseEnv() []string {
	var env []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		switch name {
		case "PATH", "HOME", "TMPDIR", "USER", "LANG", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "GOCOVERDIR":
			env = append(env, kv)
		}
	}
	return env
}

// lay gives every process its ports.
func (s *Services) lay(replicas map[string]int) error {
	processes := 0
	for _, role := range Roles {
		processes += max(replicas[role], 1)
	}
	addrs, err := FreeAddrs(2*processes + 1)
	if err != nil {
		return err
	}
	next := func() string {
		addr := addrs[0]
		addrs = addrs[1:]
		return addr
	}
	s.NATS = next()
	s.Env = append(s.Env, "HOLDFAST_NATS_URL=nats://"+s.NATS)
	upstream := map[string]string{}
	for _, role := range Roles {
		for i := range max(replicas[role], 1) {
			name := role
			if replicas[role] > 1 {
				name = fmt.Sprintf("%s-%d", role, i+1)
			}
			health, listen := next(), next()
			p := Program{Name: name, Role: role, Env: s.Env[:len(s.Env):len(s.Env)], Ready: "http://" + health + "/ready",
				Args: []string{"serve", role, "--health-listen", health}}
			switch role {
			case "nats":
				p.Args = append(p.Args, "--nats-listen", s.NATS, "--nats-dir", s.NATSDir)
			case "runner":
			case "edge":
				p.Args = append(p.Args, "--listen", listen)
				s.Edge = "http://" + listen
				for _, to := range []string{"trigger", "tools", "approvals", "console"} {
					p.Args = append(p.Args, "--edge-"+to+"-url", "http://"+upstream[to])
				}
			default:
				p.Args = append(p.Args, "--listen", listen)
				upstream[role] = listen
			}
			s.Programs = append(s.Programs, p)
		}
	}
	return nil
}

// Change edits the plan of one program before it is started.
func (s *Services) Change(name string, edit func(*Program)) {
	for i := range s.Programs {
		if s.Programs[i].Name == name {
			edit(&s.Programs[i])
		}
	}
}

// Start migrates the database, then starts NATS, then all other processes at
// once.
func (s *Services) Start(ctx context.Context, sup *Supervisor) error {
	cmd := exec.CommandContext(ctx, s.binary, "migrate")
	cmd.Env = append(s.Env[:len(s.Env):len(s.Env)], "HOLDFAST_ADMIN_TOKEN="+s.Token)
	cmd.Dir, cmd.SysProcAttr = sup.dir, ProcessAttributes()
	migrated := make(chan error, 1)
	go func() {
		if out, err := cmd.CombinedOutput(); err != nil {
			migrated <- fmt.Errorf("migrate: %w\n%s", err, out)
			return
		}
		migrated <- nil
	}()
	var first, rest []Program
	for _, p := range s.Programs {
		if p.Role == "nats" {
			first = append(first, p)
		} else {
			rest = append(rest, p)
		}
	}
	if err := errors.Join(startAll(ctx, sup, first), <-migrated); err != nil {
		return err
	}
	return startAll(ctx, sup, rest)
}

func startAll(ctx context.Context, sup *Supervisor, programs []Program) error {
	errs := make([]error, len(programs))
	var all sync.WaitGroup
	for i, p := range programs {
		all.Go(func() { errs[i] = sup.Start(ctx, p) })
	}
	all.Wait()
	return errors.Join(errs...)
}
