// Package failpoint names places where tests make a process die, stall or fail.
//
// Nothing is armed unless HOLDFAST_FAILPOINTS is set when the process starts or
// a test calls Arm; then Hit costs two atomic loads. Places lists every name.
package failpoint

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Names of the environment variables. Env holds the points, or "@" and the path of
// a file of which they are read whenever it has changed: a missing or empty one
// arms nothing. EnvLog is the file that a kill writes its line to.
const (
	Env    = "HOLDFAST_FAILPOINTS"
	EnvLog = "HOLDFAST_FAILPOINT_LOG"
)

// ErrInjected is wrapped by every error that a failpoint returns.
var ErrInjected = errors.New("injected failure")

type point struct {
	name, substring string
	nth             int64 // fires on this matching hit only; 0 = on every one
	hits            atomic.Int64
	act             func(name, key string) error
}

var (
	armed atomic.Pointer[[]*point]
	mu    sync.Mutex // serialises changes of armed
)

func init() {
	spec := os.Getenv(Env)
	if spec == "" {
		return
	}
	if path, ok := strings.CutPrefix(spec, "@"); ok {
		watched.Store(&file{path: path, log: os.Getenv(EnvLog), disarm: func() {}})
		return
	}
	if _, err := Arm(spec, os.Getenv(EnvLog)); err != nil {
		misspelt(err)
	}
}

// misspelt ends the process: without its point a crash test would pass without its
// crash.
func misspelt(err error) {
	fmt.Fprintf(os.Stderr, "%s: %v\n", Env, err)
	os.Exit(2)
}

// Hit passes the named place. key says which work is there ("run 0198… shop-04");
// it returns an error only where one was armed, and does not return from a kill.
// It is safe for concurrent use.
func Hit(name, key string) error {
	if f := watched.Load(); f != nil {
		f.read()
	}
	points := armed.Load()
	if points == nil {
		return nil
	}
	for _, p := range *points {
		if p.name != name || !strings.Contains(key, p.substring) {
			continue
		}
		if n := p.hits.Add(1); p.nth != 0 && n != p.nth {
			continue
		}
		if err := p.act(name, key); err != nil {
			return err
		}
	}
	return nil
}

// Arm adds the points of spec to those armed and returns what takes them away
// again. spec is a list separated by ";" of name[substring]=action#n:
//
//   - [substring] must be part of the key; without it every key matches.
//   - action is kill, sleep:<duration>, error or error:<text>.
//   - #n fires on the nth matching hit only, #* on every one; default #1.
//
// A kill first appends "failpoint <name> <key>\n" to the file logPath (unless
// that is empty) and to standard error, then sends the process SIGKILL.
func Arm(spec, logPath string) (disarm func(), err error) {
	var added []*point
	for part := range strings.SplitSeq(spec, ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		p, err := parse(part, logPath)
		if err != nil {
			return nil, fmt.Errorf("failpoint %q: %w", part, err)
		}
		added = append(added, p)
	}
	change(func(points []*point) []*point { return append(points, added...) })
	return func() {
		change(func(points []*point) []*point {
			return slices.DeleteFunc(points, func(p *point) bool { return slices.Contains(added, p) })
		})
	}, nil
}

func change(f func([]*point) []*point) {
	mu.Lock()
	defer mu.Unlock()
	var points []*point
	if old := armed.Load(); old != nil {
		points = slices.Clone(*old)
	}
	if points = f(points); len(points) == 0 {
		armed.Store(nil)
		return
	}
	armed.Store(&points)
}

func parse(s, logPath string) (*point, error) {
	p := &point{nth: 1}
	// The substring may hold any character but "]", so it is cut out first.
	head, tail, bracket := strings.Cut(s, "[")
	if eq := strings.IndexByte(head, '='); eq >= 0 {
		bracket = false // the bracket belongs to an error's text
	}
	var action string
	var ok bool
	if bracket {
		p.name = head
		var rest string
		if p.substring, rest, ok = strings.Cut(tail, "]"); !ok {
			return nil, errors.New(`"[" without "]"`)
		}
		if action, ok = strings.CutPrefix(rest, "="); !ok {
			return nil, errors.New(`want name[substring]=action`)
		}
	} else if p.name, action, ok = strings.Cut(s, "="); !ok {
		return nil, errors.New(`want name=action`)
	}
	if p.name == "" {
		return nil, errors.New("no name")
	}
	if i := strings.LastIndexByte(action, '#'); i >= 0 {
		count := action[i+1:]
		action = action[:i]
		if count == "*" {
			p.nth = 0
		} else {
			n, err := strconv.ParseInt(count, 10, 64)
			if err != nil || n < 1 {
				return nil, fmt.Errorf("#%s: want a number from 1, or *", count)
			}
			p.nth = n
		}
	}
	verb, arg, _ := strings.Cut(action, ":")
	switch verb {
	case "kill":
		p.act = func(name, key string) error { return kill(name, key, logPath) }
	case "sleep":
		d, err := time.ParseDuration(arg)
		if err != nil {
			return nil, err
		}
		p.act = func(string, string) error { time.Sleep(d); return nil }
	case "error":
		p.act = func(name, key string) error {
			if arg == "" {
				return fmt.Errorf("failpoint %s %s: %w", name, key, ErrInjected)
			}
			return fmt.Errorf("failpoint %s %s: %s: %w", name, key, arg, ErrInjected)
		}
	default:
		return nil, fmt.Errorf("unknown action %q; want kill, sleep:<duration> or error", verb)
	}
	return p, nil
}

func kill(name, key, logPath string) error {
	line := []byte("failpoint " + name + " " + key + "\n")
	if logPath != "" {
		f, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err == nil {
			_, err = f.Write(line)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "failpoint log: %v\n", err)
		}
	}
	_, _ = os.Stderr.Write(line)
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		return fmt.Errorf("failpoint %s: kill: %w", name, err)
	}
	select {} // the signal is on its way; do no more work
}
