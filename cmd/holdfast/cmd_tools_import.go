package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/internal/toolfile"
)

// ToolsImportCmd writes Tool documents.
type ToolsImportCmd struct {
	File    string   `arg:"" optional:"" placeholder:"FILE" help:"An OpenAPI 3 description, JSON or YAML; - for standard input."`
	MCP     string   `name:"mcp" env:"-" placeholder:"SERVER" help:"Instead: the tools of this MCP server, whose definition is applied."`
	NATS    bool     `name:"nats" env:"-" help:"Instead: the endpoints of NATS micro services that describe their input."`
	At      string   `name:"api" env:"-" placeholder:"URL" help:"Where the API is; default: the description's first server. $${env.HOLDFAST_TOOL_X} is allowed."`
	Include []string `env:"-" placeholder:"NAME" help:"Only these operations or tools. Repeatable."`
	Out     string   `short:"o" env:"-" placeholder:"DIR" help:"Write one file for each tool there; default: everything to standard output."`
	Force   bool     `env:"-" help:"Replace files that are there already."`
}

// Help implements kong.HelpProvider.
func (*ToolsImportCmd) Help() string {
	return `Writes text for you to read, keep and apply; nothing is stored. Say in it what
each tool does to the world (effect) and when a person is asked (approval). What
cannot be imported is named with the reason, on standard error.

An MCP tool is pinned by a digest of what its server says about it. When the
server says something else later, calls are refused until you import and apply
again.

  holdfast tools import openapi.yaml --api https://api.example.com -o tools/
  holdfast tools import openapi.yaml --include getPet --include addPet
  holdfast tools import --mcp files -o tools/
  holdfast tools import --nats`
}

// Run implements the command.
func (c *ToolsImportCmd) Run(ctx context.Context, k *kong.Context, group *ToolsCmd) error {
	sources := 0
	for _, given := range []bool{c.File != "", c.MCP != "", c.NATS} {
		if given {
			sources++
		}
	}
	if sources != 1 {
		return usage(errors.New("say what to import: a FILE, --mcp SERVER or --nats"))
	}
	documents, skipped, err := c.documents(ctx, group)
	if err != nil {
		return err
	}
	for _, s := range skipped {
		fmt.Fprintf(k.Stderr, "left out: %s: %s\n", clean(s.Name), clean(s.Reason))
	}
	if len(documents) == 0 {
		return errors.New("there is nothing to import")
	}
	return c.write(k, documents)
}

func (c *ToolsImportCmd) documents(ctx context.Context, group *ToolsCmd) ([]*toolfile.Document, []toolfile.Skipped, error) {
	if c.File != "" {
		text, err := readFileOrStdin(c.File)
		if err != nil {
			return nil, nil, usage(err)
		}
		return toolfile.FromOpenAPI(text, toolfile.OpenAPIOptions{Server: c.At, Include: c.Include})
	}
	api, err := group.client()
	if err != nil {
		return nil, nil, err
	}
	var documents []*toolfile.Document
	var skipped []toolfile.Skipped
	if c.NATS {
		offers, err := api.NATSOffers(ctx)
		if err != nil {
			return nil, nil, advise(err, "")
		}
		documents, skipped = toolfile.FromNATS(offers)
	} else {
		offers, err := api.MCPOffers(ctx, c.MCP)
		if err != nil {
			return nil, nil, advise(err, "")
		}
		documents, skipped = toolfile.FromMCP(offers)
	}
	return toolfile.Only(documents, c.Include), skipped, nil
}

func readFileOrStdin(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(name)
}

func (c *ToolsImportCmd) write(k *kong.Context, documents []*toolfile.Document) error {
	var all bytes.Buffer
	for i, d := range documents {
		text, err := d.YAML()
		if err != nil {
			return err
		}
		if c.Out == "" {
			if i > 0 {
				all.WriteString("---\n")
			}
			all.Write(text)
			continue
		}
		if err := os.MkdirAll(c.Out, 0o755); err != nil {
			return err
		}
		flags := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
		if !c.Force {
			flags |= os.O_EXCL
		}
		name := filepath.Join(c.Out, d.Name+".yaml")
		f, err := os.OpenFile(name, flags, 0o644)
		if errors.Is(err, os.ErrExist) {
			return fmt.Errorf("%s is there already; your changes in it would be lost. Replace it with --force", name)
		}
		if err != nil {
			return err
		}
		_, err = f.Write(text)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		fmt.Fprintln(k.Stdout, name)
	}
	if c.Out == "" {
		_, err := k.Stdout.Write(all.Bytes())
		return err
	}
	fmt.Fprintf(k.Stderr, "%d tools; read them, then: holdfast apply -f %s\n", len(documents), c.Out)
	return nil
}
