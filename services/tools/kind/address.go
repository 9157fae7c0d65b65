package kind

import (
	"context"
	"encoding/json"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

var (
	_ tools.Hosted = (*HTTP)(nil)
	_ tools.Hosted = (*FetchPage)(nil)
	_ tools.Hosted = (*MCP)(nil)
	_ tools.Hosted = (*Callback)(nil)
)

// Address implements tools.Hosted.
func (h *HTTP) Address(_ context.Context, r tools.Request) string {
	env, err := r.Tool.HTTP.EnvValues(h.lookupEnv)
	if err != nil {
		return "" // the attempt says why
	}
	address, err := r.Tool.HTTP.URL.URL(map[string]json.RawMessage{"args": r.Args, "env": env})
	if err != nil {
		return ""
	}
	return address
}

// Address implements tools.Hosted.
func (f *FetchPage) Address(_ context.Context, r tools.Request) string {
	var args struct {
		URL string `json:"url"`
	}
	_ = json.Unmarshal(r.Args, &args) // the attempt says why
	return args.URL
}

// Address implements tools.Hosted.
func (k *MCP) Address(ctx context.Context, r tools.Request) string {
	def, _, err := k.servers.config.Servers.MCPServer(ctx, r.Namespace, r.Tool.MCP.Server)
	if err != nil || def.HTTP == nil {
		return ""
	}
	env, err := def.HTTP.Request().EnvValues(k.servers.config.LookupEnv)
	if err != nil {
		return ""
	}
	address, err := def.HTTP.URL.URL(map[string]json.RawMessage{"env": env})
	if err != nil {
		return ""
	}
	return address
}

// Address implements tools.Hosted.
func (c *Callback) Address(_ context.Context, r tools.Request) string {
	var args events.CallbackArgs
	_ = json.Unmarshal(r.Args, &args) // the attempt says why
	return args.URL
}
