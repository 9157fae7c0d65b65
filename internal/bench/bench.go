package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/pgdev"
)

// Config says what is measured.
type Config struct {
	// Binary is the holdfast that is measured.
	Binary string
	// Env is the environment of its processes; settings of Holdfast are left out.
	Env []string
	// Prepare migrates an empty database, stores the token of an administrator, and
	// definitions as "apply" does.
	Prepare func(ctx context.Context, database, token config.Secret, definitions string) error
	// Insert returns what stores a start with body as its input, as the door does
	// once it has read a request. It gets a pool of the service's role.
	Insert func(*pgxpool.Pool) func(ctx context.Context, body []byte) error

	Workloads []string      // names; none: all
	Clients   []int         // at once, one row each; none: those of the workload
	Duration  time.Duration // of each row, but for workloads of a fixed size
	Turns     int           // of a run, before its last answer
	Children  int           // of the flow
	Waiting   int           // runs that are woken
	Watchers  int

	// Progress says what is measured now; nil says nothing.
	Progress io.Writer
}

func (c Config) say(format string, args ...any) { fmt.Fprintf(c.Progress, format+" ...\n", args...) }

// levels of the clients that the limits are measured with.
const (
	few  = 1
	many = 64
)

// Run measures the limits and the workloads. It ends by itself.
func Run(ctx context.Context, c Config) (_ *Report, err error) {
	if c.Progress == nil {
		c.Progress = io.Discard
	}
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o711); err != nil { // the server's user must pass through
		return nil, err
	}
	database, err := pgdev.Start(ctx, pgdev.Config{Dir: filepath.Join(dir, "postgres")})
	if err != nil {
		return nil, err
	}
	defer func() {
		sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		err = errors.Join(err, database.Stop(sctx), os.RemoveAll(filepath.Dir(database.DataDir())))
	}()
	a, err := openAsked()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	if err := prepare(ctx, c, database, a); err != nil {
		return nil, err
	}
	r := &Report{Version: ReportVersion, At: time.Now().UTC().Truncate(time.Second), CPUs: runtime.NumCPU(), Postgres: database.Version(), Duration: c.Duration}
	r.Load[0] = load()
	for _, w := range append([]Workload{limitsWorkload}, named(c.Workloads)...) {
		l, err := openLab(ctx, c, w, dir, database, a, r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.Name, err)
		}
		if err = w.run(ctx, l); err != nil {
			err = fmt.Errorf("%s: %w\n%s", w.Name, err, l.tails())
		}
		if l.close(); err != nil {
			return nil, err
		}
	}
	r.Load[1] = load()
	r.Judge()
	return r, nil
}
