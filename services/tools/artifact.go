package tools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Artifact is something that a call left behind: bytes that are kept here, or,
// with a URI, a thing elsewhere. Name, type and title are the other side's word.
type Artifact struct {
	ID          string
	Namespace   string
	RunID       events.RunID
	CallID      events.CallID
	Tool        string
	Name        string
	ContentType string
	Bytes       int64
	Digest      events.Digest // empty for a thing elsewhere
	Truncated   bool          // there was more than is kept
	URI         string
	Kind        string
	Title       string
	CreatedAt   time.Time
	// Data is set while an outcome is recorded, and by ArtifactData.
	Data []byte
}

// ArtifactID is the id of the nth artifact of a call. A repeated attempt gives
// the same ids.
func ArtifactID(call events.CallID, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "artifact/%q/%d", call, n))
	return "a-" + hex.EncodeToString(sum[:16])
}

// ArtifactFilter narrows a list of artifacts. Empty fields do not narrow.
type ArtifactFilter struct {
	Namespace string       // required
	RunID     events.RunID // also artifacts of effects that the run shares
	Limit     int
	After     *ArtifactPosition
}

// ArtifactPosition is a place in a list: the newest first.
type ArtifactPosition struct {
	CreatedAt time.Time `json:"t"`
	ID        string    `json:"i"`
}

// Artifacts reads what calls left behind.
type Artifacts interface {
	Artifacts(ctx context.Context, f ArtifactFilter) ([]Artifact, error)
	// ArtifactData reads one with its bytes. ErrNotFound when there is none,
	// ErrForgotten when its bytes went with its run.
	ArtifactData(ctx context.Context, namespace, id string) (Artifact, error)
}

// RunArtifacts reads what one run left behind, and no other's.
type RunArtifacts interface {
	// Artifacts lists them; the filter names the run.
	Artifacts(ctx context.Context, f ArtifactFilter) ([]Artifact, error)
	// RunArtifact reads the artifact with the id, or without one the newest of the
	// name, with its bytes. Errors are as those of ArtifactData; another run's
	// artifact is ErrNotFound.
	RunArtifact(ctx context.Context, namespace string, run events.RunID, id, name string) (Artifact, error)
}

// Artifacts lists artifacts, the newest first.
func (s *Service) Artifacts(ctx context.Context, f ArtifactFilter) ([]Artifact, error) {
	return s.reader.Artifacts(ctx, f)
}

// Artifact reads one with its bytes.
func (s *Service) Artifact(ctx context.Context, namespace, id string) (Artifact, error) {
	return s.reader.ArtifactData(ctx, namespace, id)
}
