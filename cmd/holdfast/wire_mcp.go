package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/catalog"
	"github.com/holdfast-run/holdfast/internal/lifecycle"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/tools"
	"github.com/holdfast-run/holdfast/services/tools/kind"
)

// addMCPServers adds the sessions with MCP servers. They end after the calls
// that use them.
func (p *process) addMCPServers(pool **pgxpool.Pool, servers **kind.MCPServers) {
	p.part("tools-mcp", func(context.Context) (lifecycle.Service, error) {
		out, err := p.egress()
		if err != nil {
			return nil, err
		}
		s := kind.NewMCPServers(kind.MCPConfig{
			Servers: toolDefinitions{catalog.New(*pool)}, Egress: out, Commands: p.services.ToolsMCPCommands,
			LookupEnv: os.LookupEnv, ReadFile: os.ReadFile, Version: buildVersion(), Log: p.log.With(telemetry.KeyService, "tools"),
		})
		*servers = s
		return lifecycle.Funcs{ServiceName: "tools-mcp", OnRun: s.Run, OnStop: s.Close}, nil
	})
}

var (
	_ tools.Servers = toolDefinitions{}
	_ tools.Listing = toolDefinitions{}
)

// MCPServer implements tools.Servers.
func (d toolDefinitions) MCPServer(ctx context.Context, namespace, name string) (*spec.MCPServer, events.Digest, error) {
	return current(ctx, d.catalog, namespace, spec.KindMCPServer, name, d.catalog.MCPServer)
}

// CurrentTool implements tools.Listing.
func (d toolDefinitions) CurrentTool(ctx context.Context, namespace, name string) (*spec.Tool, events.Digest, error) {
	return current(ctx, d.catalog, namespace, spec.KindTool, name, d.catalog.Tool)
}

// CurrentTools implements tools.Listing.
func (d toolDefinitions) CurrentTools(ctx context.Context, namespace string) ([]tools.ListedTool, error) {
	versions, err := d.catalog.List(ctx, namespace, spec.KindTool)
	if err != nil {
		return nil, err
	}
	out := make([]tools.ListedTool, 0, len(versions))
	for _, v := range versions {
		l := tools.ListedTool{Name: v.Name, Digest: v.Digest}
		if l.Tool, err = d.catalog.Tool(ctx, namespace, v.Digest); err != nil && !hopeless(err) {
			return nil, err
		}
		out = append(out, l)
	}
	return out, nil
}

// current reads what a name means now.
func current[T any](ctx context.Context, c *catalog.Catalog, namespace, kind, name string,
	get func(context.Context, string, events.Digest) (*T, error),
) (*T, events.Digest, error) {
	v, err := c.Current(ctx, namespace, kind, name)
	if errors.Is(err, catalog.ErrNotFound) {
		return nil, "", fmt.Errorf("%w: %w", tools.ErrNoDefinition, err)
	}
	if err != nil {
		return nil, "", err
	}
	t, err := get(ctx, namespace, v.Digest)
	if hopeless(err) {
		err = fmt.Errorf("%w: %w", tools.ErrNoDefinition, err)
	}
	return t, v.Digest, err
}
