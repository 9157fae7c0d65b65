package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/console"
)

// maxApplyBytes bounds one apply: files are up to 1 MiB each.
const maxApplyBytes = 8 << 20

type applyInput struct {
	Body struct {
		Documents []struct {
			File string `json:"file" maxLength:"1000" doc:"what errors call it"`
			Text string `json:"text" doc:"YAML, one or more documents"`
		} `json:"documents" minItems:"1" maxItems:"1000"`
	}
}

// Applied says what became of one document.
type Applied struct {
	Kind      string        `json:"kind"`
	Name      string        `json:"name"`
	Namespace string        `json:"namespace"`
	Digest    events.Digest `json:"digest"`
	Version   int           `json:"version" doc:"counts the changes of this name, from 1"`
	Changed   bool          `json:"changed" doc:"false: it was current already"`

	Warnings []door.ProblemError `json:"warnings,omitempty" doc:"what is valid and may not be what was meant"`
}

type applyOutput struct{ Body []Applied }

// Resource is the current version of a definition.
type Resource struct {
	Kind      string          `json:"kind"`
	Name      string          `json:"name"`
	Namespace string          `json:"namespace"`
	Digest    events.Digest   `json:"digest"`
	Version   int             `json:"version"`
	UpdatedAt time.Time       `json:"updated_at"`
	Body      json.RawMessage `json:"body,omitempty" doc:"the definition with its defaults; not in lists"`
}

func wireResource(r console.Resource) Resource {
	return Resource{Kind: r.Kind, Name: r.Name, Namespace: r.Namespace, Digest: r.Digest, Version: r.Version, UpdatedAt: r.UpdatedAt, Body: r.Body}
}

type listResourcesInput struct {
	door.PageInput
	Kind string `query:"kind" enum:"agent,flow,tool,model,webhook,schedule,budget,mcpserver,channel"`
}

type listResourcesOutput struct{ Body door.Page[Resource] }

type resourceInput struct {
	Kind string `path:"kind" enum:"agent,flow,tool,model,webhook,schedule,budget,mcpserver,channel"`
	Name string `path:"name" maxLength:"120"`
}

type resourceOutput struct{ Body Resource }

func (a *api) resources() {
	door.Register(a.door, huma.Operation{
		OperationID: "apply", Method: http.MethodPost, Path: "/v1/resources", Summary: "Store a set of definitions, all or none", Tags: []string{"resources"},
		MaxBodyBytes: maxApplyBytes,
	}, authn.Admin, func(ctx context.Context, in *applyInput) (*applyOutput, error) {
		p, _ := authn.FromContext(ctx)
		files := make([]spec.File, 0, len(in.Body.Documents))
		for _, d := range in.Body.Documents {
			files = append(files, spec.File{Name: d.File, Text: []byte(d.Text)})
		}
		applied, err := a.console.Apply(ctx, p.Namespace, p.Name, files)
		if err != nil {
			return nil, problem(err, "definition")
		}
		out := &applyOutput{Body: make([]Applied, 0, len(applied))}
		for _, d := range applied {
			one := Applied{Kind: d.Kind, Name: d.Name, Namespace: d.Namespace, Digest: d.Digest, Version: d.Version, Changed: d.Changed}
			for _, w := range d.Warnings {
				one.Warnings = append(one.Warnings, door.ProblemError{Field: w.Field, Message: w.Message, File: w.File, Line: w.Line, Column: w.Column})
			}
			out.Body = append(out.Body, one)
		}
		return out, nil
	})

	door.Register(a.door, huma.Operation{
		OperationID: "list-resources", Method: http.MethodGet, Path: "/v1/resources", Summary: "List definitions", Tags: []string{"resources"},
	}, authn.Viewer, func(ctx context.Context, in *listResourcesInput) (*listResourcesOutput, error) {
		p, _ := authn.FromContext(ctx)
		var after console.ResourceName
		if _, err := door.DecodeCursor(in.Cursor, &after); err != nil {
			return nil, err
		}
		found, err := a.console.Resources(ctx, p.Namespace, in.Kind, after, in.Limit+1)
		if err != nil {
			return nil, err
		}
		return &listResourcesOutput{door.PageOf(found, in.Limit, func(r console.Resource) any { return r.ResourceName }, wireResource)}, nil
	})

	door.Register(a.door, huma.Operation{
		OperationID: "get-resource", Method: http.MethodGet, Path: "/v1/resources/{kind}/{name}", Summary: "Get a definition", Tags: []string{"resources"},
	}, authn.Viewer, func(ctx context.Context, in *resourceInput) (*resourceOutput, error) {
		p, _ := authn.FromContext(ctx)
		r, err := a.console.Resource(ctx, p.Namespace, in.Kind, in.Name)
		if err != nil {
			return nil, problem(err, "%s %q", in.Kind, in.Name)
		}
		return &resourceOutput{wireResource(r)}, nil
	})
}
