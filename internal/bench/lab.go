package bench

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-run/holdfast/internal/config"
	services "github.com/holdfast-run/holdfast/internal/lab"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgdev"
)

// mostAtOnce is how many clients a workload may have. Runners and tools get as many
// slots, so that nothing but the machine holds them up.
const mostAtOnce = 512

// lab is what one workload runs on: a database of its own, a NATS of its own, and the
// services that take part. Labs share a Postgres and the server that tools and models
// are asked at.
type lab struct {
	c      Config
	w      Workload
	report *Report
	dir    string

	database  config.Secret
	pool      *pgxpool.Pool // of a superuser
	nats      *nats.Conn
	js        jetstream.JetStream
	meter     meter
	sup       *services.Supervisor
	processes []string          // names
	doors     map[string]string // addresses, of those that have one
	asked     *asked
	sent      atomic.Int64 // webhooks of crowds
}

// openLab starts what a workload needs and returns when all of it is ready.
func openLab(ctx context.Context, c Config, w Workload, dir string, server *pgdev.Server, a *asked, r *Report) (_ *lab, err error) {
	l := &lab{c: c, w: w, report: r, dir: filepath.Join(dir, w.Name), doors: map[string]string{}, asked: a}
	l.sup = services.NewSupervisor(c.Binary, l.dir)
	if err := os.Mkdir(l.dir, 0o711); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if l.meter, err = newMeter(server.DataDir()); err != nil {
		return nil, err
	}
	if l.database, err = newDatabase(ctx, server.URL(), "bench_"+w.Name, templateDatabase); err != nil {
		return nil, err
	}
	if l.pool, err = pg.Open(ctx, pg.Config{URL: l.database, MaxConns: many + 2, AppName: "holdfast-bench"}); err != nil {
		return nil, err
	}
	if err := l.openNATS(ctx); err != nil {
		return nil, err
	}
	errs := make([]error, len(w.services))
	var all sync.WaitGroup
	for i, name := range w.services {
		program, err := l.service(name)
		if err != nil {
			return nil, err
		}
		l.processes = append(l.processes, name)
		all.Go(func() { errs[i] = l.sup.Start(ctx, program) })
	}
	all.Wait()
	return l, errors.Join(errs...)
}

// program is one process of the lab: health is where it says that it is ready.
func (l *lab) program(name, health string, env, args []string) services.Program {
	return services.Program{Name: name, Role: name, Env: append(withoutSettings(l.c.Env), env...), Ready: "http://" + health + "/ready",
		Args: append(args, "--health-listen", health)}
}

// withoutSettings keeps what configures Holdfast out of the measured processes.
func withoutSettings(env []string) (kept []string) {
	for _, kv := range env {
		if !strings.HasPrefix(kv, "HOLDFAST_") && !strings.HasPrefix(kv, "ANTHROPIC_") {
			kept = append(kept, kv)
		}
	}
	return kept
}

func (l *lab) openNATS(ctx context.Context) error {
	addrs, err := services.FreeAddrs(2)
	if err != nil {
		return err
	}
	if err := l.sup.Start(ctx, l.program("nats", addrs[1], nil, []string{"serve", "nats", "--nats-listen", addrs[0], "--nats-dir", filepath.Join(l.dir, "nats")})); err != nil {
		return err
	}
	l.processes = append(l.processes, "nats")
	if l.nats, err = nats.Connect("nats://"+addrs[0], nats.MaxReconnects(0)); err != nil {
		return err
	}
	l.js, err = jetstream.New(l.nats)
	return err
}

// service is run by the command that operators type. The runner whose model is a
// script is the one exception: its command is the bench's own.
func (l *lab) service(name string) (services.Program, error) {
	addrs, err := services.FreeAddrs(2)
	if err != nil {
		return services.Program{}, err
	}
	env := []string{
		"HOLDFAST_DATABASE_URL=" + l.database.Reveal(), "HOLDFAST_NATS_URL=" + l.nats.ConnectedUrl(), SecretEnv + "=" + secret,
		"HOLDFAST_EGRESS_ALLOW=127.0.0.0/8", "HOLDFAST_LOG_LEVEL=warn",
		"ANTHROPIC_API_KEY=scripted", "ANTHROPIC_BASE_URL=" + l.asked.url,
		fmt.Sprintf("HOLDFAST_RUNNER_MODEL_SLOTS=%d", mostAtOnce), fmt.Sprintf("HOLDFAST_TOOLS_SLOTS=%d", mostAtOnce),
	}
	args := []string{"serve", name}
	switch name {
	case scriptedRunner:
		args = []string{ScriptedRunnerCommand}
	case "runner":
	default:
		args = append(args, "--listen", addrs[0])
		l.doors[name] = addrs[0]
	}
	return l.program(name, addrs[1], env, args), nil
}

// templateDatabase is what the labs' databases are copies of: migrated, with the
// definitions.
const templateDatabase = "bench_template"

// prepare makes templateDatabase.
func prepare(ctx context.Context, c Config, server *pgdev.Server, a *asked) error {
	url, err := newDatabase(ctx, server.URL(), templateDatabase, "template1")
	if err != nil {
		return err
	}
	if err := c.Prepare(ctx, url, config.Secret(a.token), definitions(a.url)); err != nil {
		return fmt.Errorf("prepare the database: %w", err)
	}
	return nil
}

// newDatabase makes a copy of a database that nobody uses and returns its URL.
func newDatabase(ctx context.Context, server config.Secret, name, template string) (config.Secret, error) {
	pool, err := pg.Open(ctx, pg.Config{URL: server, MaxConns: 1, AppName: "holdfast-bench"})
	if err != nil {
		return "", err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, "CREATE DATABASE "+name+" TEMPLATE "+template); err != nil {
		return "", err
	}
	u, err := url.Parse(server.Reveal())
	if err != nil {
		return "", err
	}
	u.Path = "/" + name
	return config.Secret(u.String()), nil
}

// close ends everything. It is safe on a lab that is half open.
func (l *lab) close() {
	for _, name := range slices.Backward(l.processes) { // NATS was the first
		if name == "nats" && l.nats != nil {
			l.nats.Close()
		}
		_, _ = l.sup.Kill(name, "the end") // what it has not finished is thrown away
	}
	if l.pool != nil {
		l.pool.Close()
	}
}

// tails are the ends of all logs.
func (l *lab) tails() string {
	var b strings.Builder
	for _, name := range l.processes {
		if text := l.sup.LogTail(name); text != "" {
			fmt.Fprintf(&b, "--- %s\n%s\n", name, text)
		}
	}
	return b.String()
}

// until polls ok until it says yes, three minutes at most.
func until(ctx context.Context, what string, ok func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for {
		if done, err := ok(); err != nil || done {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited for %s: %w", what, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
