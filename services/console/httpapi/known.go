package httpapi

import (
	"encoding/json"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

// Known is what a run has written down and left behind. It is exported because
// huma looks into exported embedded structs only.
type Known struct {
	Plan          []PlanItem                 `json:"plan,omitempty" doc:"as the run's model keeps it; not in lists"`
	Facts         map[string]json.RawMessage `json:"facts,omitempty" doc:"what the run's model keeps by name; not in lists"`
	Artifacts     []RunArtifact              `json:"artifacts,omitempty" doc:"the newest 100; all with GET /v1/artifacts?run=; not in lists"`
	MoreArtifacts bool                       `json:"more_artifacts,omitempty" doc:"there are older ones"`
}

// PlanItem is one step of a run's plan.
type PlanItem struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	State string `json:"state" doc:"pending, in_progress, done, failed, skipped"`
	Note  string `json:"note,omitempty"`
}

// RunArtifact is something that a call of the run left behind.
type RunArtifact struct {
	ArtifactID  string        `json:"artifact_id"`
	CallID      events.CallID `json:"call_id"`
	Tool        string        `json:"tool"`
	Name        string        `json:"name,omitempty" doc:"the other side's word, as content_type and title are"`
	ContentType string        `json:"content_type,omitempty"`
	Bytes       int64         `json:"bytes"`
	Truncated   bool          `json:"truncated,omitempty" doc:"there was more than is kept"`
	URI         string        `json:"uri,omitempty" doc:"of a thing elsewhere; it has no bytes here"`
	Kind        string        `json:"kind,omitempty"`
	Title       string        `json:"title,omitempty"`
	CreatedAt   time.Time     `json:"created_at"`
}

func wireKnown(k console.Known) Known {
	out := Known{Facts: k.Facts, MoreArtifacts: k.More}
	for _, item := range k.Plan {
		out.Plan = append(out.Plan, PlanItem(item))
	}
	for _, a := range k.Artifacts {
		out.Artifacts = append(out.Artifacts, RunArtifact{
			ArtifactID: a.ID, CallID: a.CallID, Tool: a.Tool, Name: a.Name, ContentType: a.ContentType, Bytes: a.Bytes,
			Truncated: a.Truncated, URI: a.URI, Kind: a.Kind, Title: a.Title, CreatedAt: a.CreatedAt,
		})
	}
	return out
}
