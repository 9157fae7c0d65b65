package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// ToolsCmd groups what is about tools.
type ToolsCmd struct {
	Remote

	List   ToolsListCmd   `cmd:"" help:"List the tools that are defined now."`
	Test   ToolsTestCmd   `cmd:"" help:"Call a tool without a run."`
	Import ToolsImportCmd `cmd:"" help:"Write Tool documents for an OpenAPI description, an MCP server or NATS services."`
}

// Help implements kong.HelpProvider.
func (*ToolsCmd) Help() string {
	return `  holdfast tools list
  holdfast tools test fetch_page --args '{"url":"https://example.com"}'
  holdfast tools import openapi.yaml --api https://api.example.com -o tools/
  holdfast tools import --mcp files -o tools/
` + exitHelp
}

const lookTools = "holdfast tools list"

// ToolsListCmd lists tools.
type ToolsListCmd struct{ Output }

// Help implements kong.HelpProvider.
func (*ToolsListCmd) Help() string {
	return `What decides about a call: what the tool does to the world, what follows when
nobody knows whether it happened, when a person is asked, and where it runs.

  holdfast tools list

--json prints {"items": [{"name", "kind", "effect", "in_doubt", "approval", "pool", "digest"}]}.`
}

// Run implements the command.
func (c *ToolsListCmd) Run(ctx context.Context, k *kong.Context, group *ToolsCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	items, err := api.Tools(ctx)
	if err != nil {
		return advise(err, "")
	}
	if c.JSON {
		return printJSON(k.Stdout, client.Page[client.Tool]{Items: items})
	}
	if len(items) == 0 {
		_, err := fmt.Fprintln(k.Stdout, "no tools")
		return err
	}
	rows := make([][]string, 0, len(items))
	for _, t := range items {
		kind := t.Kind
		switch {
		case t.Damaged:
			kind = "damaged"
		case kind == "":
			kind = "not run here"
		}
		rows = append(rows, []string{t.Name, kind, t.Effect, t.InDoubt, t.Approval, t.Pool, t.Digest.Short()})
	}
	return table(k.Stdout, []string{"TOOL", "KIND", "EFFECT", "IN DOUBT", "APPROVAL", "POOL", "DIGEST"}, rows)
}

// ToolsTestCmd calls a tool.
type ToolsTestCmd struct {
	Output
	Name   string `arg:"" help:"Name of the tool."`
	Args   string `env:"-" default:"{}" placeholder:"JSON|@FILE" help:"The arguments: an object (${default})."`
	YesAct bool   `env:"-" help:"Call it although it acts on the outside world or asks for approval. Needs the role admin."`
}

// Help implements kong.HelpProvider.
func (*ToolsTestCmd) Help() string {
	return `A tool that reads is called by the tools service as in a run, and its answer is
kept nowhere. One that acts is refused without --yes-act and then goes through
the ledger. A call that a person must agree to is refused: only a run can ask.

  holdfast tools test fetch_page --args '{"url":"https://example.com"}'
  holdfast tools test send_mail --args @mail.json --yes-act

--json prints {"effect", "status", "result", "error", "took_ms", "effect_id"}.
Exit code 1 when the call did not succeed.`
}

// Run implements the command.
func (c *ToolsTestCmd) Run(ctx context.Context, k *kong.Context, group *ToolsCmd) error {
	args, err := readJSON("--args", c.Args)
	if err != nil {
		return err
	}
	api, err := group.client()
	if err != nil {
		return err
	}
	got, err := api.TestTool(ctx, c.Name, args, c.YesAct)
	if err != nil {
		if e, ok := errors.AsType[*client.Error](err); ok && e.Code == "tool_acts" {
			return fmt.Errorf("%s acts on the outside world, or asks for approval; nothing was done. To call it all the same: --yes-act", c.Name)
		}
		return advise(err, lookTools)
	}
	if c.JSON {
		if err := printJSON(k.Stdout, got); err != nil {
			return err
		}
	} else {
		failed := ""
		if got.Error != nil {
			failed = got.Error.Code + ": " + got.Error.Message
		}
		if err := details(k.Stdout, "tool", c.Name, "digest", got.Digest.Short(), "effect", got.Effect, "status", got.Status,
			"took", fmt.Sprintf("%d ms", got.TookMs), "ledger", got.EffectID, "result", pretty(got.Result), "error", failed, "receipt", pretty(got.Receipt)); err != nil {
			return err
		}
	}
	if got.Status != events.CallSucceeded {
		return fmt.Errorf("the call of %s is %s", c.Name, clean(got.Status))
	}
	return nil
}
