package console

import (
	"encoding/json"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// MaxEdits is how many changed calls are shown with a run, the newest.
const MaxEdits = 100

// Edit is a call that a person changed before it was made.
type Edit struct {
	ApprovalID events.ApprovalID
	CallID     events.CallID
	Tool       string
	Args       json.RawMessage // as the model wrote them
	Edited     json.RawMessage // as they were sent
	By         string
	Door       string
	Comment    string
	At         time.Time
}

// Changes are the places that differ.
func (e Edit) Changes() []events.Change {
	args, err := events.Canonical(e.Args)
	if err != nil {
		return nil
	}
	return events.Changes(args, e.Edited)
}
