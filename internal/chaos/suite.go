package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-run/holdfast/internal/lab"
)

// Config says what is played.
type Config struct {
	Binary string // whose services are run
	Seed   uint64 // the order of scenarios, and which process is hit
	// Only narrows to scenarios whose names one of these patterns matches, as in
	// path.Match ("runner/*"); empty means all.
	Only []string
	// Short plays those that show the most in the least time, on one deployment with one
	// process of each service.
	Short bool
	// Duration is how long scenarios are played again and again; zero: each once.
	Duration time.Duration
	Bounds   bool // judge the measured times too
	Keep     bool // keep data and logs also when everything holds
	Err      io.Writer
	TTY      bool // Err is a terminal
}

// Scenario is one thing that is tried.
type Scenario struct {
	Name string `json:"name"`
	What string `json:"what"`
	kind kind
	play func(ctx context.Context, r *rig, id string) Result
	// short says that it is one of those of Config.Short.
	short bool
	// possible says why it cannot be played here; nil, or empty: it can.
	possible func() string
}

// kind says what deployment a scenario needs.
type kind int

const (
	kindPlace  kind = iota // one process of each service
	kindLoad               // two runners, two tools workers
	kindResume             // three runners
)

// shortly are the scenarios of Config.Short: the two moments at which most could be
// lost or done twice, the two things that all services stand on, and a full disk.
var shortly = map[string]bool{"runner/runner.answer_committed": true, "tools/tools.acted": true, "nats-killed": true, "lines-cut": true, "postgres-disk-full": true}

// Scenarios lists everything that is tried, places first.
func Scenarios() (all []Scenario) {
	for _, p := range places() {
		all = append(all, Scenario{Name: p.name(), What: p.What, kind: kindPlace, short: shortly[p.name()],
			play: func(ctx context.Context, r *rig, id string) Result { return r.killAt(ctx, p, id) }})
	}
	all = append(all,
		Scenario{Name: "runner-killed", What: fmt.Sprintf("one of %d runners is killed in %d model calls, %d times", runners, resumeJobs, resumeKills), kind: kindResume,
			play: func(ctx context.Context, r *rig, _ string) Result {
				return r.resumes(ctx, "killed", resumeKills, false)
			}},
		Scenario{Name: "runner-stopped", What: fmt.Sprintf("one of %d runners is stopped in %d model calls that outlast its grace, %d times", runners, resumeJobs, resumeTerms), kind: kindResume,
			play: func(ctx context.Context, r *rig, _ string) Result {
				return r.resumes(ctx, "stopped", resumeTerms, true)
			}},
	)
	for _, n := range nemeses {
		all = append(all, Scenario{Name: n.name, What: n.what, kind: kindLoad, short: shortly[n.name], possible: n.possible,
			play: func(ctx context.Context, r *rig, id string) Result { return r.meet(ctx, n, id) }})
	}
	return all
}

// Run plays what c says and returns the report. An error means that it could not be
// played to its end.
func Run(ctx context.Context, c Config) (rep Report, err error) {
	fmt.Fprintf(c.Err, "seed %d\n", c.Seed)
	chosen, err := choose(c.Only, c.Short)
	if err != nil {
		return rep, err
	}
	dir, err := os.MkdirTemp("", "holdfast-chaos-")
	if err != nil {
		return rep, err
	}
	if err := os.Chmod(dir, 0o711); err != nil { // the database's user passes through
		return rep, err
	}
	s := &suite{Config: c, dir: dir, p: lab.NewProgress(c.Err, c.TTY)}
	began := time.Now()
	for first := true; first || time.Since(began) < c.Duration; first = false {
		if err = s.round(ctx, chosen); err != nil {
			break
		}
	}
	s.p.End()
	rep = conclude(c.Seed, s.results, c.Bounds)
	rep.Seconds = time.Since(began).Seconds()
	if err == nil && rep.OK && !c.Keep {
		return rep, os.RemoveAll(dir)
	}
	rep.Logs = dir
	return rep, err
}

// ErrNoScenario is returned when Config.Only fits nothing.
var ErrNoScenario = errors.New("no scenario is called")

func choose(only []string, short bool) (chosen []Scenario, err error) {
	for _, s := range Scenarios() {
		if short && !s.short {
			continue
		}
		if short {
			s.kind = kindPlace
		}
		keep := len(only) == 0
		for _, pattern := range only {
			ok, err := path.Match(pattern, s.Name)
			if err != nil {
				return nil, fmt.Errorf("%w %q: %w", ErrNoScenario, pattern, err)
			}
			keep = keep || ok
		}
		if keep {
			chosen = append(chosen, s)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("%w %q; see --list", ErrNoScenario, only)
	}
	return chosen, nil
}

type suite struct {
	Config
	dir string
	p   *lab.Progress

	mu      sync.Mutex
	rounds  int
	played  int
	results []Result
}

// lanes is how many deployments play places side by side: most of a scene is waiting.
func (c Config) lanes() int {
	if c.Short {
		return 1
	}
	return min(runtime.NumCPU()+1, 4)
}

// round plays each scenario once: places in lanes, then the rest on one deployment
// each kind.
func (s *suite) round(ctx context.Context, chosen []Scenario) error {
	s.rounds++
	order := slices.Clone(chosen)
	r := rand.New(rand.NewPCG(s.Seed, uint64(s.rounds)))
	r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	queues := map[kind]chan Scenario{}
	count := map[kind]int{}
	for _, k := range []kind{kindPlace, kindResume, kindLoad} {
		queues[k] = make(chan Scenario, len(order))
		for _, sc := range order {
			if sc.kind != k {
				continue
			}
			if sc.possible != nil {
				if why := sc.possible(); why != "" {
					s.note(Result{Name: sc.Name, What: sc.What, Skipped: why})
					continue
				}
			}
			queues[k] <- sc
			count[k]++
		}
		close(queues[k])
	}
	replicas := map[kind]map[string]int{kindResume: {"runner": runners}, kindLoad: {"runner": 2, "tools": 2}}
	var failed []error
	for _, k := range []kind{kindPlace, kindResume, kindLoad} {
		n := min(count[k], 1)
		if k == kindPlace {
			n = min(count[k], s.lanes())
		}
		errs := make([]error, n)
		var all sync.WaitGroup
		for lane := range n {
			all.Go(func() { errs[lane] = s.lane(ctx, fmt.Sprintf("%d-%d-%d", s.rounds, k, lane), replicas[k], queues[k]) })
		}
		all.Wait()
		failed = append(failed, errs...)
	}
	return errors.Join(failed...)
}

// lane plays scenarios on one deployment, and looks at all journals in the end.
func (s *suite) lane(ctx context.Context, name string, replicas map[string]int, queue <-chan Scenario) (err error) {
	r, err := openRig(ctx, filepath.Join(s.dir, name), rigConfig{binary: s.Binary, replicas: replicas, change: func(v *lab.Services) {
		if replicas["runner"] == runners {
			for _, p := range v.Programs {
				if p.Role == "runner" {
					v.Change(p.Name, func(p *lab.Program) { p.Args = append(p.Args, "--shutdown-grace", stopGrace.String()) })
				}
			}
		}
	}})
	if err != nil {
		return err
	}
	defer r.close()
	if s.Short {
		r.every = 2 * loadEvery
	}
	var last Result
	for n := 0; ; n++ {
		sc, more := <-queue
		if !more {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		began := time.Now()
		last = sc.play(ctx, r, fmt.Sprintf("s%s-%d", name, n))
		last.Name, last.What, last.Seconds = sc.Name, sc.What, time.Since(began).Seconds()
		if err := r.all(ctx); err != nil {
			last.Problems = append(last.Problems, err.Error())
		}
		last.Problems = append(last.Problems, r.journals(ctx)...)
		last.OK = len(last.Problems) == 0 && last.Completed == last.Runs && last.Runs > 0 && last.Duplicates == 0
		s.note(last)
		if !last.OK { // what follows must not stumble over what is left
			r.close()
			return s.again(ctx, name, replicas, queue)
		}
	}
}

// again goes on with the rest of a queue on a new deployment.
func (s *suite) again(ctx context.Context, name string, replicas map[string]int, queue <-chan Scenario) error {
	if len(queue) == 0 {
		return nil
	}
	return s.lane(ctx, name+"b", replicas, queue)
}

func (s *suite) note(r Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results = append(s.results, r)
	s.played++
	switch {
	case r.Skipped != "":
		s.p.Say("%-34s not played: %s", r.Name, r.Skipped)
	case r.OK:
		s.p.Say("%-34s holds: %d runs, %d deaths, %d in doubt, %.1f s", r.Name, r.Runs, r.Deaths, r.Doubts, r.Seconds)
	default:
		s.p.Say("%-34s DOES NOT HOLD", r.Name)
		for _, problem := range r.Problems {
			s.p.Say("    %s", problem)
		}
	}
}
