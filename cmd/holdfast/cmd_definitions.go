package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
)

// DefinitionsCmd reads what was applied.
type DefinitionsCmd struct {
	List     DefinitionsListCmd     `cmd:"" help:"List definitions with their current version."`
	Get      DefinitionsGetCmd      `cmd:"" help:"Print the current version of a definition as JSON, with its defaults."`
	Versions DefinitionsVersionsCmd `cmd:"" help:"List what a name meant: each version, by whom and since when, and how many runs are of it."`
	Diff     DefinitionsDiffCmd     `cmd:"" help:"Say what differs between two versions, member by member."`
}

const lookDefinitions = "holdfast definitions list"

// DefinitionsListCmd lists definitions.
type DefinitionsListCmd struct {
	Remote
	Output
	List
	Kind string `arg:"" optional:"" help:"Only this kind: agent, flow, tool, model, webhook, schedule, budget, mcpserver or channel."`
}

// Run implements the command.
func (c *DefinitionsListCmd) Run(ctx context.Context, k *kong.Context) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	read := func(ctx context.Context, p client.PageRequest) (client.Page[client.Resource], error) {
		return api.Resources(ctx, c.Kind, p)
	}
	return printList(ctx, k, c.Output, c.List, read, listing[client.Resource]{
		none: "nothing is defined yet; see: holdfast apply",
		head: []string{"KIND", "NAME", "VERSION", "CHANGED", "DIGEST"},
		row: func(r client.Resource) []string {
			return []string{clean(r.Kind), clean(r.Name), strconv.Itoa(r.Version), r.UpdatedAt.UTC().Format(time.DateTime) + "Z", r.Digest.Short()}
		},
	})
}

// aDefinition names one definition.
type aDefinition struct {
	Kind string `arg:"" help:"Kind of the definition: agent, flow, tool, model, webhook, schedule, budget, mcpserver or channel."`
	Name string `arg:"" help:"Its name."`
}

// DefinitionsGetCmd prints one definition.
type DefinitionsGetCmd struct {
	Remote
	aDefinition
}

// Run implements the command.
func (c *DefinitionsGetCmd) Run(ctx context.Context, k *kong.Context) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	found, err := api.Resource(ctx, c.Kind, c.Name)
	if err != nil {
		return advise(err, lookDefinitions)
	}
	return printJSON(k.Stdout, found)
}

// DefinitionsVersionsCmd lists the versions of a name.
type DefinitionsVersionsCmd struct {
	Remote
	Output
	aDefinition
}

// Run implements the command.
func (c *DefinitionsVersionsCmd) Run(ctx context.Context, k *kong.Context) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	found, err := api.Versions(ctx, c.Kind, c.Name)
	if err != nil {
		return advise(err, lookDefinitions)
	}
	if c.JSON {
		return printJSON(k.Stdout, map[string]any{"items": found})
	}
	rows := make([][]string, 0, len(found))
	for _, v := range found {
		current := ""
		if v.Current {
			current = "current"
		}
		rows = append(rows, []string{versionText(v), current, v.ChangedAt.UTC().Format(time.DateTime) + "Z", clean(v.ChangedBy), v.Digest.Short(), strconv.FormatInt(v.Runs, 10), strconv.FormatInt(v.Open, 10)})
	}
	return table(k.Stdout, []string{"VERSION", "", "SINCE", "BY", "DIGEST", "RUNS", "OPEN"}, rows)
}

// versionText is what a diff takes for the version.
func versionText(v client.Version) string {
	if v.Version > 0 {
		return strconv.Itoa(v.Version)
	}
	return "earlier"
}

// DefinitionsDiffCmd compares two versions.
type DefinitionsDiffCmd struct {
	Remote
	Output
	aDefinition
	From string `env:"-" placeholder:"VERSION" help:"Number or digest of a version. Without it the one before --to."`
	To   string `env:"-" placeholder:"VERSION" help:"Number or digest of a version. Without it the current one."`
}

// Run implements the command.
func (c *DefinitionsDiffCmd) Run(ctx context.Context, k *kong.Context) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	found, err := api.Diff(ctx, c.Kind, c.Name, c.From, c.To)
	if err != nil {
		return advise(err, fmt.Sprintf("holdfast definitions versions %s %s", c.Kind, c.Name))
	}
	if c.JSON {
		return printJSON(k.Stdout, found)
	}
	fmt.Fprintf(k.Stdout, "%s %s: %s %s -> %s %s\n", clean(c.Kind), clean(c.Name), versionText(found.From), found.From.Digest.Short(), versionText(found.To), found.To.Digest.Short())
	if len(found.Changes) == 0 {
		_, err := fmt.Fprintln(k.Stdout, "nothing differs")
		return err
	}
	_, err = io.WriteString(k.Stdout, cleanLines(found.Diff))
	return err
}
