package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/holdfast-run/holdfast/internal/config"
)

// services is how Holdfast's processes are run: the same commands that an
// operator types, on ports of their own.
type services struct {
	binary   string
	database config.Secret
	token    string // of the first administrator
	env      []string
	edge     string // URL of all doors
	specs    []program
}

// replicas says how many processes each service has.
var replicas = map[string]int{"runner": 2, "tools": 2}

func newServices(c Config, database config.Secret, dir string, w *world) (*services, error) {
	s := &services{binary: c.Binary, database: database, token: "hf_" + rand.Text()}
	key := c.APIKey
	s.env = append(baseEnv(),
		"HOLDFAST_DATABASE_URL="+database.Reveal(),
		"HOLDFAST_LOG_LEVEL=debug",
		"HOLDFAST_EGRESS_ALLOW=127.0.0.0/8",
		"HOLDFAST_TOOL_PRICING_URL="+w.pricesURL,
		"HOLDFAST_WEBHOOK_SECRET=whsec_ZGVtby1kZW1vLWRlbW8tZGVtby1kZW1v",
	)
	if c.Model == "" {
		key = "scripted"
		s.env = append(s.env, "ANTHROPIC_BASE_URL="+w.modelURL)
	}
	s.env = append(s.env, "ANTHROPIC_API_KEY="+key)
	return s, s.lay(dir)
}

// baseEnv keeps what a process needs and nothing that configures Holdfast.
func baseEnv() []string {
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
func (s *services) lay(dir string) error {
	ports, err := freePorts(24)
	if err != nil {
		return err
	}
	next := func() string {
		addr := fmt.Sprintf("127.0.0.1:%d", ports[0])
		ports = ports[1:]
		return addr
	}
	nats := next()
	s.env = append(s.env, "HOLDFAST_NATS_URL=nats://"+nats)
	upstream := map[string]string{}
	for _, role := range roles {
		for i := range max(replicas[role], 1) {
			name := role
			if replicas[role] > 1 {
				name = fmt.Sprintf("%s-%d", role, i+1)
			}
			health, listen := next(), next()
			sp := program{Name: name, Role: role, Env: s.env, Ready: "http://" + health + "/ready",
				Args: []string{"serve", role, "--health-listen", health}}
			switch role {
			case "nats":
				sp.Args = append(sp.Args, "--nats-listen", nats, "--nats-dir", filepath.Join(dir, "nats"))
			case "runner":
			case "edge":
				sp.Args = append(sp.Args, "--listen", listen)
				s.edge = "http://" + listen
				for _, to := range []string{"trigger", "tools", "approvals", "console"} {
					sp.Args = append(sp.Args, "--edge-"+to+"-url", "http://"+upstream[to])
				}
			default:
				sp.Args = append(sp.Args, "--listen", listen)
				upstream[role] = listen
			}
			s.specs = append(s.specs, sp)
		}
	}
	return nil
}

// arm gives the first process of a name a failpoint.
func (s *services) arm(name, point string) {
	for i := range s.specs {
		if s.specs[i].Name == name {
			s.specs[i].Failpoint = point
		}
	}
}

// start migrates the database, then starts NATS, then all other processes at
// once.
func (s *services) start(ctx context.Context, sup *supervisor) error {
	cmd := exec.CommandContext(ctx, s.binary, "migrate")
	cmd.Env = append(s.env[:len(s.env):len(s.env)], "HOLDFAST_ADMIN_TOKEN="+s.token)
	cmd.Dir, cmd.SysProcAttr = sup.dir, processAttributes()
	migrated := make(chan error, 1)
	go func() {
		if out, err := cmd.CombinedOutput(); err != nil {
			migrated <- fmt.Errorf("migrate: %w\n%s", err, out)
			return
		}
		migrated <- nil
	}()
	var first, rest []program
	for _, sp := range s.specs {
		if sp.Role == "nats" {
			first = append(first, sp)
		} else {
			rest = append(rest, sp)
		}
	}
	if err := errors.Join(startAll(ctx, sup, first), <-migrated); err != nil {
		return err
	}
	return startAll(ctx, sup, rest)
}

func startAll(ctx context.Context, sup *supervisor, specs []program) error {
	errs := make([]error, len(specs))
	var all sync.WaitGroup
	for i, sp := range specs {
		all.Go(func() { errs[i] = sup.start(ctx, sp) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// freePorts finds n ports that nobody listens on now.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // all are held until the last is found, so none comes twice
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
