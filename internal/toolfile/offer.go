package toolfile

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// maxDescription is what a Tool document takes.
const maxDescription = 16 << 10

// FromMCP makes a document of each tool that an MCP server offers and its
// definition allows. The policies are the definition's; what the server hints at
// is told in a comment.
func FromMCP(o client.MCPOffers) ([]*Document, []Skipped) {
	var policy struct {
		Effect   string          `json:"effect"`
		InDoubt  json.RawMessage `json:"inDoubt"`
		Approval json.RawMessage `json:"approval"`
		Timeout  json.RawMessage `json:"timeout"`
	}
	if err := json.Unmarshal(o.Defaults, &policy); err != nil {
		return nil, []Skipped{{Name: o.Server, Reason: "its defaults cannot be read: " + err.Error()}}
	}
	var out []*Document
	var skipped []Skipped
	for _, t := range o.Items {
		name := Name(o.Server + "_" + t.Name)
		switch {
		case t.Denied:
			skipped = append(skipped, Skipped{t.Name, "the server's definition does not allow it"})
			continue
		case len(t.InputSchema) == 0:
			skipped = append(skipped, Skipped{t.Name, "its input schema cannot be read"})
			continue
		case len(t.Description) > maxDescription:
			skipped = append(skipped, Skipped{t.Name, fmt.Sprintf("its description has more than %d bytes", maxDescription)})
			continue
		}
		d := &Document{Name: name}
		if hints := hintText(t.Hints); hints != "" {
			d.Comments = append(d.Comments, "The server says of it: "+hints+". That is its word; effect and approval below are yours to decide.")
		}
		description := t.Description
		if description == "" {
			description = t.Name
		}
		mcp := spec.MCP{Server: o.Server, Tool: t.Name, Schema: t.Digest}
		if err := d.setAll("description", description, "input", t.InputSchema, "outputSchema", t.OutputSchema, "effect", policy.Effect, "inDoubt", policy.InDoubt,
			"approval", policy.Approval, "timeout", policy.Timeout, "pool", o.Pool, "mcp", mcp); err != nil {
			skipped = append(skipped, Skipped{t.Name, err.Error()})
			continue
		}
		out = append(out, d)
	}
	return keep(out, skipped)
}

func hintText(hints map[string]bool) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(hints)) {
		out = append(out, fmt.Sprintf("%s %v", clip(name, 64), hints[name]))
	}
	return strings.Join(out, ", ")
}

// FromNATS makes a document of each endpoint. Nothing is known about its effect,
// so it acts, and asks.
func FromNATS(offers []client.ToolOffer) ([]*Document, []Skipped) {
	var out []*Document
	var skipped []Skipped
	for _, o := range offers {
		d := &Document{Name: Name(o.Service + "_" + o.Name), Comments: []string{
			"An endpoint of the NATS micro service " + clip(o.Service, 100) + ". Say what it does to the world: effect read, idempotent or write.",
		}}
		description := o.Description
		if description == "" {
			description = o.Service + " " + o.Name
		}
		where := spec.NATS{Subject: o.Subject}
		if service, ok := strings.CutPrefix(o.Subject, spec.ToolServicePrefix); ok && spec.ValidName(service) {
			where = spec.NATS{Service: service}
		} else {
			d.Comments = append(d.Comments, "The NATS user of the tools service must be allowed to publish on "+clip(o.Subject, 200)+".")
		}
		if err := d.setAll("description", clip(description, 4000), "input", o.InputSchema, "effect", spec.EffectWrite, "approval", spec.ApprovalAlways, "nats", where); err != nil {
			skipped = append(skipped, Skipped{o.Name, err.Error()})
			continue
		}
		out = append(out, d)
	}
	return keep(out, skipped)
}

// setAll sets fields given as key, value, key, value.
func (d *Document) setAll(pairs ...any) error {
	for i := 0; i < len(pairs); i += 2 {
		if err := d.set(pairs[i].(string), pairs[i+1]); err != nil {
			return err
		}
	}
	return nil
}
