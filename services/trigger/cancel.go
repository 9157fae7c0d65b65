package trigger

import (
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Cancel asks that a run gives way to the next one of its schedule.
type Cancel struct {
	RunID     events.RunID
	Namespace string
	Schedule  string
	Reason    string
	At        time.Time
}

// CancelCause is the logical id of the cancel of a run by its schedule. There is
// one per run, however often the schedule fires.
func CancelCause(run events.RunID) string { return "command:overlap-" + string(run) }

// CancelMessage is what the relay announces for a cancel.
func CancelMessage(c Cancel) (events.Message, error) {
	data, err := events.Marshal(events.Command{
		ID: "overlap-" + string(c.RunID), RunID: c.RunID, Principal: "schedule/" + c.Schedule, Reason: c.Reason,
	})
	if err != nil {
		return events.Message{}, fmt.Errorf("encode cancel of run %s: %w", c.RunID, err)
	}
	return events.Message{
		Subject:   events.RunSubject(c.RunID, events.RunCancel),
		ID:        CancelCause(c.RunID),
		Source:    source,
		Type:      events.TypeCommandRun,
		About:     string(c.RunID),
		Time:      c.At.UTC(),
		Namespace: c.Namespace,
		Data:      data,
	}, nil
}
