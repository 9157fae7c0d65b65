package console

import (
	"encoding/json"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// MaxRunArtifacts is how many artifacts are shown with a run, the newest.
const MaxRunArtifacts = 100

// Known is what a run has written down and left behind.
type Known struct {
	Plan      []events.PlanItem
	Facts     map[string]json.RawMessage
	Artifacts []Artifact // at most MaxRunArtifacts, the newest first
	More      bool       // there are older ones
}

// Artifact is something that a call left behind. Name, type and title are the
// other side's word.
type Artifact struct {
	ID          string
	CallID      events.CallID
	Tool        string
	Name        string
	ContentType string
	Bytes       int64
	Truncated   bool
	URI         string
	Kind        string
	Title       string
	CreatedAt   time.Time
}
