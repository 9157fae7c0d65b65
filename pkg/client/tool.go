package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Tool is a tool as it is defined now.
type Tool struct {
	Name        string        `json:"name"`
	Kind        string        `json:"kind,omitempty"`
	Description string        `json:"description,omitempty"`
	Effect      string        `json:"effect"`
	InDoubt     string        `json:"in_doubt"`
	Approval    string        `json:"approval"`
	Pool        string        `json:"pool"`
	Digest      events.Digest `json:"digest"`
	Damaged     bool          `json:"damaged,omitempty"`
}

// Tools lists the tools that are defined now, by name.
func (c *Client) Tools(ctx context.Context) ([]Tool, error) {
	out, err := get[Page[Tool]](ctx, c, "/v1/tools", nil)
	return out.Items, err
}

// ToolTest is what a test of a tool came to.
type ToolTest struct {
	Effect   string          `json:"effect"`
	Digest   events.Digest   `json:"digest"`
	Status   string          `json:"status"` // succeeded, failed, unknown, ... or again
	Result   json.RawMessage `json:"result,omitempty"`
	Error    *events.Problem `json:"error,omitempty"`
	TookMs   int64           `json:"took_ms"`
	Receipt  json.RawMessage `json:"receipt,omitempty"`
	CallID   string          `json:"call_id,omitempty"`
	EffectID string          `json:"effect_id,omitempty"`
}

// TestTool calls a tool without a run. One that acts, or asks for approval, is
// only called when act says so. It is not repeated by itself.
func (c *Client) TestTool(ctx context.Context, name string, args json.RawMessage, act bool) (ToolTest, error) {
	body := struct {
		Args json.RawMessage `json:"args,omitempty"`
		Act  bool            `json:"act,omitempty"`
	}{args, act}
	var out ToolTest
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/v1/tools/" + url.PathEscape(name) + "/test", body: body}, &out)
	return out, err
}

// ToolOffer is something at another program that a tool can be made of.
type ToolOffer struct {
	Name         string          `json:"name"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"input_schema,omitempty"`
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
	Digest       events.Digest   `json:"digest,omitempty"`
	Subject      string          `json:"subject,omitempty"`
	Service      string          `json:"service,omitempty"`
	Hints        map[string]bool `json:"hints,omitempty"`
	Denied       bool            `json:"denied,omitempty"`
}

// MCPOffers is what an MCP server offers, and what its definition says about
// its tools.
type MCPOffers struct {
	Server   string          `json:"server"`
	Pool     string          `json:"pool"`
	Defaults json.RawMessage `json:"defaults"`
	Items    []ToolOffer     `json:"items"`
}

// MCPOffers asks the MCP server of that name what tools it has.
func (c *Client) MCPOffers(ctx context.Context, server string) (MCPOffers, error) {
	var out MCPOffers
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/v1/tools/offers/mcp/" + url.PathEscape(server), body: struct{}{}}, &out)
	return out, err
}

// NATSOffers asks NATS micro services which of their endpoints are tools.
func (c *Client) NATSOffers(ctx context.Context) ([]ToolOffer, error) {
	var out Page[ToolOffer]
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/v1/tools/offers/nats", body: struct{}{}}, &out)
	return out.Items, err
}
