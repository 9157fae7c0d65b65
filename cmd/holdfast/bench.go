package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
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
	Workloads []string `arg:"" optional:"" name:"workload" help:"What to measure: ${bench_workloads}. Default: all of them."`

	Duration time.Duration `default:"3s" help:"How long each row is measured (${default})."`
	Clients  []int         `aliases:"senders" placeholder:"N,..." help:"How many at once, one row each, 1 to 512. Default: those of the workload."`
	Turns    int           `default:"10" help:"Turns of a run before its last answer (${default})."`
	Children int           `default:"1000" help:"Children of the flow (${default})."`
	Waiting  int           `default:"2000" help:"Runs that wait and are woken, up to 200000 (${default})."`
	Watchers int           `default:"1000" help:"Streams of events that are open at once (${default})."`
	From     string        `type:"path" placeholder:"FILE" help:"Take the report that --json wrote instead of measuring."`
	Write    string        `type:"path" placeholder:"FILE" help:"Put the tables into this document, between its markers."`
	Floors   bool          `help:"Exit with 1 when a row is below its floor, and name the floor."`
	JSON     bool          `name:"json" help:"Print the report as JSON: docs/performance.md says what is in it."`
}

// Help implements kong.HelpProvider.
func (*BenchCmd) Help() string {
	var b strings.Builder
	for _, w := range bench.Workloads() {
		fmt.Fprintf(&b, "  %-8s %s\n", w.Name, w.Doc)
	}
	return `Starts a private Postgres (with fsync), a NATS and the services that take part,
each a process of its own, and measures beside them what this machine can do at
all, in the same run: single-row commits, group commits, messages of JetStream.
Only the ratios say something about Holdfast; absolute figures are the machine's.

` + b.String() + `
Nothing of yours is touched, and it ends by itself after some minutes.

Exit codes: 0 done, 1 below a floor (with --floors), 2 wrong usage, 6 it could not
be measured.`
}

// Validate implements kong's check after parsing.
func (c *BenchCmd) Validate() error {
	for _, name := range c.Workloads {
		if !slices.Contains(bench.Names(), name) {
			return fmt.Errorf("there is no workload %q; there are %s", name, strings.Join(bench.Names(), ", "))
		}
	}
	if c.Duration < 100*time.Millisecond || c.Duration > time.Minute {
		return fmt.Errorf("--duration is %s, want 100ms to 1m", c.Duration)
	}
	for _, n := range c.Clients {
		if n < 1 || n > 512 {
			return fmt.Errorf("--clients has %d, want 1 to 512", n)
		}
	}
	if c.Turns < 1 || c.Turns > 90 {
		return fmt.Errorf("--turns is %d, want 1 to 90", c.Turns)
	}
	for _, size := range []struct {
		flag    string
		n, most int
	}{{"children", c.Children, 1000}, {"waiting", c.Waiting, 200_000}, {"watchers", c.Watchers, 10_000}} {
		if size.n < 1 || size.n > size.most {
			return fmt.Errorf("--%s is %d, want 1 to %d", size.flag, size.n, size.most)
		}
	}
	return nil
}

// Run implements the command.
func (c *BenchCmd) Run(ctx context.Context, k *kong.Context) error {
	r, err := c.report(ctx, k)
	if err != nil {
		return err
	}
	if c.JSON {
		e := json.NewEncoder(k.Stdout)
		e.SetIndent("", "  ")
		err = e.Encode(r)
	} else {
		err = r.Print(k.Stdout)
	}
	if err != nil {
		return err
	}
	if c.Write != "" {
		if err := writeTables(c.Write, r); err != nil {
			return err
		}
	}
	if below := r.BelowFloors(); c.Floors && len(below) > 0 {
		return &exitError{exitFailure, fmt.Errorf("bench: below the floor:\n  %s", strings.Join(below, "\n  "))}
	}
	return nil
}

// report measures, or reads what was measured.
func (c *BenchCmd) report(ctx context.Context, k *kong.Context) (*bench.Report, error) {
	if c.From != "" {
		r, err := bench.ReadReport(c.From)
		if err != nil {
			return nil, usage(err)
		}
		r.Judge()
		return r, nil
	}
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r, err := bench.Run(ctx, bench.Config{
		Binary: binary, Env: os.Environ(), Prepare: prepareBench, Insert: insertBench,
		Workloads: c.Workloads, Clients: c.Clients, Duration: c.Duration, Turns: c.Turns, Children: c.Children, Waiting: c.Waiting, Watchers: c.Watchers, Progress: k.Stderr,
	})
	if err != nil {
		return nil, &exitError{exitUnavailable, fmt.Errorf("bench: %w", err)}
	}
	return r, nil
}

// writeTables replaces the sections of a document.
func writeTables(path string, r *bench.Report) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	document, err := r.Write(string(text))
	if err != nil {
		return usage(fmt.Errorf("--write %s: %w", path, err))
	}
	return os.WriteFile(path, []byte(document), 0o644)
}

// prepareBench migrates a database and stores a token, and definitions as "apply" does.
func prepareBench(ctx context.Context, url, token config.Secret, definitions string) (err error) {
	if err := pg.Migrate(ctx, url, schemas()); err != nil {
		return err
	}
	if err := storeAdminToken(ctx, url, token, "default"); err != nil {
		return err
	}
	pool, err := pg.Open(ctx, pg.Config{URL: url, Role: "holdfast_console", MaxConns: 2})
	if err != nil {
		return err
	}
	defer pool.Close()
	svc := console.New(console.Config{Store: postgres.New(pool)})
	applied, err := svc.Apply(ctx, "default", "bench", []spec.File{{Name: "bench.yaml", Text: []byte(definitions)}})
	if err == nil && len(applied) == 0 {
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
			ID: trigger.DeliveryID(run), Namespace: "default", Source: trigger.Source{Kind: trigger.SourceWebhook, Name: bench.IntakeHook},
			Key: fmt.Sprintf("limit_%d", n), Digest: digest, RunID: run, Ref: events.Ref{Kind: events.KindAgent, Name: "bench", Digest: digest}, Input: body,
		}
		d.Attempt = &trigger.Attempt{
			ID: d.ID, Namespace: d.Namespace, Webhook: bench.IntakeHook, Version: digest, Outcome: trigger.OutcomeAccepted, Status: trigger.HookAccepted,
			ReceivedAt: time.Now(), Remote: "127.0.0.1", ContentType: "application/json", Header: map[string][]string{"Webhook-Id": {d.Key}, "User-Agent": {"bench"}},
			BodyBytes: int64(len(body)), BodyDigest: digest, Body: body, EventID: d.Key, Key: d.Key, RunID: d.RunID, DeliveryID: d.ID,
		}
		_, _, err := store.Insert(ctx, d)
		return err
	}
}
