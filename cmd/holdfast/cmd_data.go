package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/pkg/client"
)

// DataCommands are the commands that speak to a running server over HTTP.
// Their Run methods want a context.Context bound in kong and write to the
// Stdout and Stderr of the kong.Context. exitCode says how the process ends.
type DataCommands struct {
	Init        InitCmd        `cmd:"" group:"work" help:"Write a small working project to start from. Needs no server."`
	Validate    ValidateCmd    `cmd:"" group:"work" help:"Check definitions without a server."`
	Apply       ApplyCmd       `cmd:"" group:"work" help:"Store definitions (agents, tools, flows, ...) from YAML files."`
	Definitions DefinitionsCmd `cmd:"" group:"work" help:"See what was applied: versions, who changed it, and what differs."`
	Agents      AgentsCmd      `cmd:"" group:"work" help:"Try an agent in the foreground, list agents, print one."`
	Runs        RunsCmd        `cmd:"" group:"work" help:"Start, watch and steer runs."`
	Approvals   ApprovalsCmd   `cmd:"" group:"work" help:"See what waits for a person, and decide it."`
	Notices     NoticesCmd     `cmd:"" group:"work" help:"See what people were told in channels."`
	Grants      GrantsCmd      `cmd:"" group:"work" help:"Allow calls of a tool before they are asked, within bounds."`
	Effects     EffectsCmd     `cmd:"" group:"work" help:"Read the ledger of side effects and settle doubts."`
	Stop        StopCmd        `cmd:"" group:"work" help:"The emergency stop: let no new write leave."`
	Start       StartCmd       `cmd:"" group:"work" help:"End a stop, or list what is stopped."`
	Budgets     BudgetsCmd     `cmd:"" group:"work" help:"See what shared budgets have used, and raise ceilings."`
	Cost        CostCmd        `cmd:"" group:"work" help:"See what model calls used and cost, by agent, flow, model, label, trigger or day."`
	Concurrency ConcurrencyCmd `cmd:"" group:"work" help:"See which runs hold concurrency keys, and who waits."`
	Durability  DurabilityCmd  `cmd:"" group:"work" help:"Say what became of work whose worker was lost, and what was kept from happening twice."`
	Overview    OverviewCmd    `cmd:"" group:"work" help:"Say what runs, what is stuck, what waits for a person, what changed and what it cost."`
	Doctor      DoctorCmd      `cmd:"" group:"work" help:"Say what is wrong and what to do about it."`
	Artifacts   ArtifactsCmd   `cmd:"" group:"work" help:"List and download what tool calls left behind."`
	Tools       ToolsCmd       `cmd:"" group:"work" help:"List, test and import tools."`
	Events      EventsCmd      `cmd:"" group:"work" help:"Follow everything that happens, as it happens."`
	Schedules   SchedulesCmd   `cmd:"" group:"work" help:"See, pause, start and backfill schedules."`
	Deliveries  DeliveriesCmd  `cmd:"" group:"work" help:"See what came in, also what was rejected, and replay it."`
	Signals     SignalsCmd     `cmd:"" group:"work" help:"Hand data to runs that wait, and see what became of it."`
	Webhooks    WebhooksCmd    `cmd:"" group:"work" help:"Try a webhook with a request that is signed as its sender signs."`
	Tokens      TokensCmd      `cmd:"" group:"work" help:"Create, list and revoke tokens."`
	Sessions    SessionsCmd    `cmd:"" group:"work" help:"See who is signed in with a browser, and end sessions."`
	Audit       AuditCmd       `cmd:"" group:"work" help:"See who did what."`
}

// Remote is how a command reaches the server. It is embedded in every group, so
// its flags may stand before and after the subcommand.
type Remote struct {
	Server    string        `group:"server" env:"HOLDFAST_SERVER" default:"http://127.0.0.1:8787" placeholder:"URL" help:"Address of the server (${default})."`
	Token     config.Secret `group:"server" env:"HOLDFAST_TOKEN" placeholder:"TOKEN" help:"Bearer token. Not needed on the loopback of 'holdfast dev'. A file or the environment keeps it out of the process list."`
	TokenFile string        `group:"server" env:"HOLDFAST_TOKEN_FILE" placeholder:"FILE" help:"File that holds the token."`
	Namespace string        `group:"server" short:"n" env:"HOLDFAST_NAMESPACE" placeholder:"NAME" help:"Namespace. A token's own needs no flag."`
}

// client connects nothing yet; it fails on flags that cannot work.
func (r *Remote) client() (*client.Client, error) {
	token := strings.TrimSpace(r.Token.Reveal())
	if r.TokenFile != "" && token == "" {
		b, err := os.ReadFile(r.TokenFile)
		if err != nil {
			return nil, usage(fmt.Errorf("token file: %w", err))
		}
		if token = strings.TrimSpace(string(b)); token == "" {
			return nil, usage(fmt.Errorf("token file %s is empty", r.TokenFile))
		}
	}
	c, err := client.New(client.Config{Server: cmp.Or(r.Server, client.DefaultServer), Token: token, Namespace: r.Namespace})
	if err != nil {
		return nil, usage(err)
	}
	return c, nil
}
