package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
)

// AgentsCmd groups agents.
type AgentsCmd struct {
	Remote

	Try  AgentsTryCmd  `cmd:"" help:"Run one in the foreground with every step printed; without a server it brings its own."`
	List AgentsListCmd `cmd:"" help:"List agents with their current version."`
	Get  AgentsGetCmd  `cmd:"" help:"Print the current version of an agent as JSON, with its defaults."`
}

// Help implements kong.HelpProvider.
func (*AgentsCmd) Help() string {
	return `An agent is a definition: a model, its instructions, tools and limits.

  holdfast agents try triage --input '{"issue": 7}' -f .
  holdfast agents list
` + exitHelp
}

const lookAgents = "holdfast agents list"

// AgentsListCmd lists agents.
type AgentsListCmd struct {
	Output
	List
}

// Help implements kong.HelpProvider.
func (*AgentsListCmd) Help() string {
	return `  holdfast agents list

--json prints {"items": [{"kind", "name", "namespace", "digest", "version", "updated_at"}], "next_cursor"}.`
}

// Run implements the command.
func (c *AgentsListCmd) Run(ctx context.Context, k *kong.Context, group *AgentsCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	read := func(ctx context.Context, p client.PageRequest) (client.Page[client.Resource], error) {
		return api.Resources(ctx, "agent", p)
	}
	return printList(ctx, k, c.Output, c.List, read, listing[client.Resource]{
		none: `no agents; store some with "holdfast apply -f DIR"`,
		head: []string{"AGENT", "VERSION", "DIGEST", "SINCE"},
		row: func(r client.Resource) []string {
			return []string{r.Name, strconv.Itoa(r.Version), r.Digest.Short(), stamp(r.UpdatedAt)}
		},
	})
}

// AgentsGetCmd prints an agent.
type AgentsGetCmd struct {
	Output
	Name string `arg:"" help:"Name of the agent."`
}

// Help implements kong.HelpProvider.
func (*AgentsGetCmd) Help() string {
	return `  holdfast agents get triage

Prints the definition as it was stored, with defaults filled in. --json prints {"kind", "name",
"namespace", "digest", "version", "updated_at", "body"}.`
}

// Run implements the command.
func (c *AgentsGetCmd) Run(ctx context.Context, k *kong.Context, group *AgentsCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	r, err := api.Resource(ctx, "agent", c.Name)
	if err != nil {
		return advise(err, lookAgents)
	}
	if c.JSON {
		return printJSON(k.Stdout, r)
	}
	_, err = fmt.Fprintln(k.Stdout, pretty(r.Body))
	return err
}
