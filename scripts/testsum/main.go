// Command testsum runs the tests of several groups of packages with go test,
// shows what failed in full and the rest in one line per package, and ends with
// one line that counts them all.
//
// With TESTLOG set, every event of go test -json is appended to that file.
//
// Temporary files of the tests live in memory where there is plenty.
//
// With CI set, a skipped test fails the run: what was not run was not checked.
//
// Usage: testsum [go test flags] -- package... [-- go test flags -- package...]
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

func main() {
	groups, err := split(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	remove, err := inMemory()
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
		os.Exit(2)
	}
	t := &tally{out: os.Stdout, log: io.Discard}
	if path := os.Getenv("TESTLOG"); path != "" {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			fmt.Fprintln(os.Stderr, "testsum:", err)
			os.Exit(2)
		}
		defer f.Close()
		t.log = f
	}
	for _, g := range groups {
		if err := run(t, g); err != nil {
			fmt.Fprintln(os.Stderr, "testsum:", err)
			t.broken = true
		}
	}
	remove()
	if !t.report(os.Getenv("CI") != "") {
		os.Exit(1)
	}
}

// group is one call of go test.
type group struct{ flags, packages []string }

func split(args []string) ([]group, error) {
	var groups []group
	for len(args) > 0 {
		i := slices.Index(args, "--")
		if i < 0 {
			return nil, fmt.Errorf("usage: testsum [go test flags] -- package... [-- go test flags -- package...]")
		}
		g := group{flags: args[:i]}
		args = args[i+1:]
		if i = slices.Index(args, "--"); i < 0 {
			i = len(args)
		}
		g.packages = args[:i]
		args = args[min(i+1, len(args)):]
		if len(g.packages) == 0 {
			return nil, fmt.Errorf("testsum: a group without packages")
		}
		groups = append(groups, g)
	}
	return groups, nil
}

func run(t *tally, g group) error {
	args := append([]string{"test", "-json"}, g.flags...)
	cmd := exec.Command("go", append(args, g.packages...)...)
	if slices.Contains(g.flags, "-race") {
		cmd.Env = append(os.Environ(), "CGO_ENABLED=1") // the race detector is C
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := t.read(io.TeeReader(out, t.log)); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil && !t.failed() {
		return fmt.Errorf("go test: %w", err)
	}
	return nil
}

// event is a line of go test -json. Source: go doc test2json.
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Elapsed    float64
	Output     string
}

// tally counts what go test reports.
type tally struct {
	out, log io.Writer

	passed, failures int
	skipped          []string
	failedPackages   []string
	broken           bool // go test itself did not run
	output           map[string][]string
}

func (t *tally) failed() bool { return t.failures > 0 || len(t.failedPackages) > 0 }

func (t *tally) read(r io.Reader) error {
	t.output = map[string][]string{}
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			t.line(line)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (t *tally) line(line []byte) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		fmt.Fprint(t.out, string(line)) // not ours: show it as it is
		return
	}
	key := e.Package + " " + e.Test
	switch e.Action {
	case "output":
		if !strings.HasPrefix(e.Output, "=== ") {
			t.output[key] = append(t.output[key], e.Output)
		}
	case "build-output":
		t.output[e.ImportPath+" "] = append(t.output[e.ImportPath+" "], e.Output)
	case "build-fail":
		t.show(e.ImportPath + " ")
	case "pass", "fail", "skip":
		t.finish(e, key)
		delete(t.output, key)
	}
}

func (t *tally) finish(e event, key string) {
	if e.Test == "" {
		switch {
		case e.Action == "fail":
			t.failedPackages = append(t.failedPackages, e.Package)
			t.show(key)
			fmt.Fprintf(t.out, "FAIL %s (%.1f s)\n", e.Package, e.Elapsed)
		case e.Action == "pass":
			fmt.Fprintf(t.out, "ok   %s (%.1f s)\n", e.Package, e.Elapsed)
		}
		return
	}
	switch e.Action {
	case "pass":
		t.passed++
	case "fail":
		t.failures++
		t.show(key)
	case "skip":
		t.skipped = append(t.skipped, strings.TrimSpace(e.Package+" "+e.Test))
		t.show(key)
	}
}

func (t *tally) show(key string) {
	for _, o := range t.output[key] {
		fmt.Fprint(t.out, o)
	}
	delete(t.output, key)
}

// report prints the summary and says whether the run is good.
func (t *tally) report(ci bool) bool {
	ok := !t.failed() && !t.broken && t.passed > 0
	if ci && len(t.skipped) > 0 {
		ok = false
		fmt.Fprintf(t.out, "skipped, which CI does not allow:\n  %s\n", strings.Join(t.skipped, "\n  "))
	}
	failures := t.failures
	if failures == 0 && (len(t.failedPackages) > 0 || t.broken) {
		failures = max(len(t.failedPackages), 1) // a package that did not build or panicked
	}
	skipped := ""
	if len(t.skipped) > 0 {
		skipped = fmt.Sprintf(", %d skipped", len(t.skipped))
	}
	fmt.Fprintf(t.out, "%d passed, %d failed%s\n", t.passed, failures, skipped)
	return ok
}
