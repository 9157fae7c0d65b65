// Command holdfast runs AI agents that keep their place and do not act twice.
//
// One binary holds every service and every tool of an operator: "dev" runs all
// services in one process, "serve" runs some of them against given servers, and
// the other commands speak to a running server over HTTP. It is the only place
// where services meet the adapters that they work with.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/internal/bench"
)

//go:generate go test -run ^Test((Config|CLI|Metrics|API|Errors)Doc|JSON_OnlyGrows)$ . -args -update

// version is set by the linker.
var version = ""

// CLI is the command line. Every setting is a flag, and its environment
// variable is the flag's name in upper case after HOLDFAST_.
type CLI struct {
	DataCommands

	Dev     DevCmd     `cmd:"" group:"run" help:"Run everything in one process, with its own NATS and Postgres. Start here."`
	Demo    DemoCmd    `cmd:"" group:"run" help:"Run the competitor monitor with 30 shops, kill things, and report."`
	Chaos   ChaosCmd   `cmd:"" group:"run" help:"Kill it at every place and break what it stands on; report what became of the work."`
	Bench   BenchCmd   `cmd:"" group:"run" help:"Measure it on this machine, beside the machine's own limits."`
	Serve   ServeCmd   `cmd:"" group:"run" help:"Run one or more services against given servers."`
	Migrate MigrateCmd `cmd:"" group:"run" help:"Bring the database to this version."`
	Ready   ReadyCmd   `cmd:"" group:"run" help:"Ask a process whether it is ready; a health check."`
	Config  ConfigCmd  `cmd:"" group:"run" help:"Show the effective settings and where each came from."`
	Version VersionCmd `cmd:"" group:"run" help:"Print the version."`

	BenchRunner BenchRunnerCmd `cmd:"" name:"bench-runner" hidden:"" help:"The runner of \"bench\", whose model is a script."`

	Completion CompletionCmd `cmd:"" group:"run" help:"Print what a shell reads to complete command lines."`
}

func main() { os.Exit(run(os.Args[1:])) }

// run executes one command line and returns the exit code.
func run(args []string) int {
	ctx, stop := signalContext()
	defer stop()
	var cli CLI
	parser, err := newParser(&cli, kong.BindTo(ctx, (*context.Context)(nil)))
	if err != nil {
		fmt.Fprintln(os.Stderr, "holdfast:", err)
		return exitUsage
	}
	if completes(parser) {
		return exitOK
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	k, err := parser.Parse(args)
	if err != nil {
		if p, ok := errors.AsType[*kong.ParseError](err); ok {
			_ = p.Context.PrintUsage(true) // a courtesy beside the error
		}
		fmt.Fprintln(os.Stderr, "holdfast:", err)
		return exitUsage
	}
	if err := k.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "holdfast:", err)
		return exitCode(err)
	}
	return exitOK
}

func newParser(cli *CLI, more ...kong.Option) (*kong.Kong, error) {
	return kong.New(cli, append([]kong.Option{
		kong.Name("holdfast"),
		kong.Description("Runs AI agents that keep their place and do not act twice.\n\nFirst steps: holdfast dev -f examples/competitor-monitor"),
		kong.DefaultEnvars("HOLDFAST"),
		kong.Vars{"bench_workloads": strings.Join(bench.Names(), ", ")},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true, WrapUpperBound: 100}),
		kong.ExplicitGroups([]kong.Group{
			{Key: "run", Title: "Run it:"},
			{Key: "work", Title: "Work with it (these speak to a running server):"},
			{Key: "server", Title: "Connection:"},
			{Key: "database", Title: "Database:"},
			{Key: "nats", Title: "NATS:"},
			{Key: "http", Title: "HTTP:"},
			{Key: "sign-in", Title: "Signing in:"},
			{Key: "process", Title: "Process:"},
			{Key: "services", Title: "Services:"},
		}),
	}, more...)...)
}

// buildVersion is the version of the binary: the linker's, else the module's.
func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "dev"
}
