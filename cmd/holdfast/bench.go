package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/alecthomas/kong"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/bench"
	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/console"
	"github.com/holdfast-run/holdfast/services/console/postgres"
	"github.com/holdfast-run/holdfast/services/trigger"
	triggerpostgres "github.com/holdfast-run/holdfast/services/trigger/postgres"
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
commits, group commits of one row and of the rows of a start, and HTTP requests
answered without any work. Only
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
		Binary: binary, Env: os.Environ(), Prepare: prepareBench, Insert: insertBench, Senders: c.Senders, Duration: c.Duration, Progress: k.Stderr,
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

// insertBench stores what the door stores for one webhook, by the same statement.
func insertBench(pool *pgxpool.Pool) func(context.Context, []byte) error {
	store := triggerpostgres.New(pool)
	var number atomic.Int64
	return func(ctx context.Context, body []byte) error {
		n, digest, run := number.Add(1), events.DigestOf(body), events.NewRunID()
		d := trigger.Delivery{
			ID: trigger.DeliveryID(run), Namespace: "default", Source: trigger.Source{Kind: trigger.SourceWebhook, Name: bench.Webhook},
			Key: fmt.Sprintf("limit_%d", n), Digest: digest, RunID: run, Ref: events.Ref{Kind: events.KindAgent, Name: "bench", Digest: digest}, Input: body,
		}
		d.Attempt = &trigger.Attempt{
			ID: d.ID, Namespace: d.Namespace, Webhook: bench.Webhook, Version: digest, Outcome: trigger.OutcomeAccepted, Status: trigger.HookAccepted,
			ReceivedAt: time.Now(), Remote: "127.0.0.1", ContentType: "application/json", Header: map[string][]string{"Webhook-Id": {d.Key}, "User-Agent": {"bench"}},
			BodyBytes: int64(len(body)), BodyDigest: digest, Body: body, EventID: d.Key, Key: d.Key, RunID: d.RunID, DeliveryID: d.ID,
		}
		_, _, err := store.Insert(ctx, d)
		return err
	}
}
