// Package kind runs the kinds of tool: one file each, listed in All.
package kind

import (
	"context"

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/services/tools"
)

// Sender makes outgoing requests; egress.Client is one.
type Sender interface {
	Do(ctx context.Context, r egress.Request) (egress.Response, error)
}

// Config is what kinds work with.
type Config struct {
	Egress Sender
	// LookupEnv and ReadFile resolve what definitions name.
	LookupEnv func(string) (string, bool)
	ReadFile  func(string) ([]byte, error)
	// Ends is what Callback posts.
	Ends tools.Ends
	// MCP keeps sessions with MCP servers, and Bus asks programs over NATS. Tools
	// of these kinds are not run without them.
	MCP *MCPServers
	Bus tools.Requester
	// Artifacts is what ArtifactRead reads. Tools of that kind are not run without
	// it.
	Artifacts tools.RunArtifacts
}

// All lists every kind. A definition is of one kind at most.
func All(c Config) []tools.Kind {
	all := []tools.Kind{
		&HTTP{egress: c.Egress, lookupEnv: c.LookupEnv, readFile: c.ReadFile},
		&FetchPage{egress: c.Egress},
		&ArtifactSave{},
		&Callback{egress: c.Egress, ends: c.Ends, lookupEnv: c.LookupEnv, readFile: c.ReadFile},
	}
	if c.Artifacts != nil {
		all = append(all, &ArtifactRead{artifacts: c.Artifacts})
	}
	if c.MCP != nil {
		all = append(all, &MCP{servers: c.MCP})
	}
	if c.Bus != nil {
		all = append(all, &NATS{bus: c.Bus})
	}
	return all
}
