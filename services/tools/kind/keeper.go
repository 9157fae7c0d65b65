package kind

import (
	"github.com/holdfast-run/holdfast/services/tools"
)

// Bounds of what one call leaves behind.
const (
	maxArtifactBytes = 8 << 20
	maxArtifacts     = 50
)

// artifactNote names an artifact in what the model reads.
type artifactNote struct {
	Artifact  string `json:"artifact"`
	Type      string `json:"type,omitempty"`
	Bytes     int    `json:"bytes"`
	Truncated bool   `json:"truncated,omitempty"` // there was more than is kept
}

// keeper collects the artifacts of one answer. Names and types come from
// outside and are cleaned, secrets are out of all that is handed to it.
type keeper struct {
	r    tools.Request
	list []tools.Artifact
	used int
}

// keep takes an artifact and returns its id; empty when it is not kept.
func (k *keeper) keep(a tools.Artifact) string {
	if k.r.Discard || len(k.list) == maxArtifacts || k.used+len(a.Data) > maxArtifactBytes {
		return ""
	}
	a.ID = tools.ArtifactID(k.r.CallID, len(k.list))
	a.Name, a.ContentType = clean(a.Name, 200), clean(a.ContentType, 200)
	a.URI, a.Kind, a.Title = clean(a.URI, 2048), clean(a.Kind, 100), clean(a.Title, 500)
	k.used += len(a.Data)
	k.list = append(k.list, a)
	return a.ID
}

// bytes keeps data and names it.
func (k *keeper) bytes(data []byte, contentType, name string, truncated bool) []artifactNote {
	id := k.keep(tools.Artifact{Name: name, ContentType: contentType, Truncated: truncated, Data: data})
	if id == "" {
		return nil
	}
	return []artifactNote{{Artifact: id, Type: clean(contentType, 200), Bytes: len(data), Truncated: truncated}}
}
