package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/internal/bench"
	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/console"
	"github.com/holdfast-run/holdfast/services/console/postgres"
)

// BenchCmd measures Holdfast on this machine.
type BenchCmd struct {
	Intake BenchIntakeCmd `cmd:"" help:"How many signed webhooks a second the trigger accepts."`
}

// BenchIntakeCmd measures the webhook door.
type BenchIntakeCmd struct {
	Duration time.Duration `default:"3s" help:"How long each row is measured (${default})."`
	Senders  []int         `default:"1,16,64" help:"How many senders at once, one row each (${default})."`
	JSON     bool          `name:"json" help:"Print the report as JSON."`
}

// Help implements kong.HelpProvider.
func (*BenchIntakeCmd) Help() string {
	return `Starts a private Postgres (with fsync) and NATS and the trigger as a process of
its own, sends it signed webhooks over loopback, and prints accepted webhooks
beside what this machine can do at all, measured in the same run: single-row
commits, a bare group commit, and HTTP requests answered without any work. Only
the ratios say something about Holdfast; absolute figures are the machine's.

Nothing of yours is touched, and it ends by itself after about half a minute.`
}

// Validate implements kong's check after parsing.
func (c *BenchIntakeCmd) Validate() error {
	if c.Duration < 100*time.Millisecond || c.Duration > time.Minute {
		return fmt.Errorf("--duration is %s, want 100ms to 1m", c.Duration)
	}
	for _, n := range c.Senders {
		if n < 1 || n > 512 {
			return fmt.Errorf("--senders has %d, want 1 to 512", n)
		}
	}
	return nil
}

// Run implements the command.
func (c *BenchIntakeCmd) Run(ctx context.Context, k *kong.Context) error {
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	r, err := bench.Intake(ctx, bench.Config{
		Binary: binary, Env: os.Environ(), Prepare: prepareBench, Senders: c.Senders, Duration: c.Duration, Progress: k.Stderr,
	})
	if err != nil {
		return &exitError{exitUnavailable, fmt.Errorf("bench: %w", err)}
	}
	if c.JSON {
		e := json.NewEncoder(k.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	return r.Print(k.Stdout)
}

// benchFiles define the webhook that is sent to. The agent never runs.
const benchFiles = `
apiVersion: holdfast/v1
kind: Model
metadata: {name: bench}
spec: {provider: anthropic, model: none, apiKey: {env: ANTHROPIC_API_KEY}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: bench}
spec: {model: bench, instructions: Never asked., input: {type: object, required: [type]}}
---
apiVersion: holdfast/v1
kind: Webhook
metadata: {name: ` + bench.Webhook + `}
spec: {provider: standard, secrets: [{env: ` + bench.SecretEnv + `}], agent: bench}
`

// prepareBench migrates a database and defines the webhook, as "apply" does.
func prepareBench(ctx context.Context, url config.Secret) (err error) {
	if err := pg.Migrate(ctx, url, schemas()); err != nil {
		return err
	}
	pool, err := pg.Open(ctx, pg.Config{URL: url, Role: "holdfast_console", MaxConns: 2})
	if err != nil {
		return err
	}
	defer pool.Close()
	svc := console.New(console.Config{Store: postgres.New(pool)})
	applied, err := svc.Apply(ctx, "default", "bench", []spec.File{{Name: "bench.yaml", Text: []byte(benchFiles)}})
	if err == nil && len(applied) != 3 {
		err = errors.New("the definitions were not stored")
	}
	return err
}
