package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

// Version is one change of what a name means.
type Version struct {
	Version   int           `json:"version,omitempty" doc:"counts the changes of the name, from 1; absent: stored before changes were kept"`
	Digest    events.Digest `json:"digest"`
	ChangedAt time.Time     `json:"changed_at"`
	ChangedBy string        `json:"changed_by"`
	Current   bool          `json:"current,omitempty"`
	Runs      int64         `json:"runs" doc:"of the newest 5000 runs of the name"`
	Open      int64         `json:"open" doc:"of those, how many have not ended"`
}

func wireVersion(v console.Version) Version {
	return Version{Version: v.Number, Digest: v.Digest, ChangedAt: v.At, ChangedBy: v.By, Current: v.Current, Runs: v.Runs, Open: v.Open}
}

type versionsOutput struct {
	Body struct {
		Items []Version `json:"items" doc:"newest first, at most 200"`
	}
}

type diffInput struct {
	Kind string `path:"kind" enum:"agent,flow,tool,model,webhook,schedule,budget,mcpserver,channel"`
	Name string `path:"name" maxLength:"120"`
	From string `query:"from" maxLength:"100" doc:"number or digest of a version; default: the one before to"`
	To   string `query:"to" maxLength:"100" doc:"number or digest of a version; default: the current one"`
}

type diffOutput struct {
	Body struct {
		From    Version  `json:"from"`
		To      Version  `json:"to"`
		Changes []Change `json:"changes" doc:"member by member; lists are compared as a whole"`
		More    bool     `json:"more,omitempty" doc:"there are more than are listed"`
		Diff    string   `json:"diff" doc:"the same for people"`
	}
}

func (a *api) definitions() {
	door.Register(a.door, huma.Operation{
		OperationID: "list-resource-versions", Method: http.MethodGet, Path: "/v1/resources/{kind}/{name}/versions", Summary: "List what a name meant, and who changed it when", Tags: []string{"resources"},
	}, authn.Viewer, func(ctx context.Context, in *resourceInput) (*versionsOutput, error) {
		p, _ := authn.FromContext(ctx)
		found, err := a.console.Changed(ctx, p.Namespace, in.Kind, in.Name)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, problem(console.ErrNotFound, "%s %q", in.Kind, in.Name)
		}
		out := &versionsOutput{}
		for _, v := range found {
			out.Body.Items = append(out.Body.Items, wireVersion(v))
		}
		return out, nil
	})

	door.Register(a.door, huma.Operation{
		OperationID: "diff-resource", Method: http.MethodGet, Path: "/v1/resources/{kind}/{name}/diff", Summary: "Say what differs between two versions of a definition", Tags: []string{"resources"},
	}, authn.Viewer, func(ctx context.Context, in *diffInput) (*diffOutput, error) {
		p, _ := authn.FromContext(ctx)
		c, err := a.console.Compare(ctx, p.Namespace, console.ResourceName{Kind: in.Kind, Name: in.Name}, in.From, in.To)
		if err != nil {
			return nil, problem(err, "such version of %s %q", in.Kind, in.Name)
		}
		out := &diffOutput{}
		b := &out.Body
		b.From, b.To, b.More, b.Diff = wireVersion(c.From), wireVersion(c.To), c.More, console.ChangeText(c.Changes, c.More)
		b.Changes = make([]Change, 0, len(c.Changes))
		for _, x := range c.Changes {
			b.Changes = append(b.Changes, Change{Kind: x.Kind, Name: x.Name, Op: x.Op, Path: x.Path, Before: x.Before, After: x.After})
		}
		return out, nil
	})
}
