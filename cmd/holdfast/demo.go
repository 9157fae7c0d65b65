package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"

	"github.com/alecthomas/kong"

	competitormonitor "github.com/holdfast-run/holdfast/examples/competitor-monitor"
	"github.com/holdfast-run/holdfast/internal/demo"
)

// DemoCmd plays the nightly competitor check and breaks things meanwhile.
type DemoCmd struct {
	Seed    *uint64 `help:"Which processes are hit, and when. The same seed gives the same plan; without one it is drawn and printed first."`
	Model   string  `placeholder:"NAME" help:"Use this model of Anthropic instead of the scripted one; needs ANTHROPIC_API_KEY. Checks that need the script are left out, and the report says so."`
	Example string  `type:"existingdir" placeholder:"DIR" help:"Folder with the example's YAML instead of the one in the binary."`
	JSON    bool    `name:"json" help:"Print the report as JSON; progress goes to standard error."`
	Keep    bool    `help:"Keep data and logs also when everything holds."`
}

// Help implements kong.HelpProvider.
func (*DemoCmd) Help() string {
	return `Runs every service as a process of its own, on a private NATS and Postgres, and
plays one night of examples/competitor-monitor: 30 shops are read, prices are
proposed, a person approves. Meanwhile processes are killed: a runner in the middle of
competitor 17, the tools service between a price change and its record, the trigger
right after it said 202, approvals, NATS; one service gets SIGTERM.

The report is drawn from outside: the pricing API's own file, the model server's
and the web's own counts, the HTTP API and the read-only SQL views.

Exit codes: 0 every check holds, 1 a check failed (the report says what it expected
and saw), 2 wrong usage, 6 the night could not be played to its end.`
}

// Run implements the command.
func (c *DemoCmd) Run(ctx context.Context, k *kong.Context) error {
	key := os.Getenv("ANTHROPIC_API_KEY")
	if c.Model != "" && key == "" {
		return usage(errors.New("--model needs ANTHROPIC_API_KEY; without --model a scripted model is used"))
	}
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	example, err := exampleFiles(c.Example)
	if err != nil {
		return usage(err)
	}
	seed := rand.Uint64N(1_000_000)
	if c.Seed != nil {
		seed = *c.Seed
	}
	ok, err := demo.Run(ctx, demo.Config{
		Binary: binary, Example: example, Seed: seed, Model: c.Model, APIKey: key, JSON: c.JSON, Keep: c.Keep,
		Out: k.Stdout, Err: k.Stderr, TTY: isTerminal(os.Stderr),
	})
	if err != nil {
		return &exitError{exitUnavailable, fmt.Errorf("demo: the night could not be played to its end: %w", err)}
	}
	if !ok {
		return &exitError{exitFailure, errors.New("demo: not every check holds; the report says which")}
	}
	return nil
}

// exampleFiles opens the example's folder: the one that is named, else the one
// in the binary.
func exampleFiles(dir string) (fs.FS, error) {
	if dir == "" {
		return competitormonitor.Files, nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("--example: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("--example: %s is not a folder", dir)
	}
	return os.DirFS(dir), nil
}

// isTerminal reports whether f shows what is written to a person.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}
