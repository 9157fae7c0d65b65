package console

import (
	"context"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// JournalBytes is about how much the rows of one page of a journal say, and ShownBytes
// how much of a row the run's page shows.
const (
	JournalBytes = 4 << 20
	ShownBytes   = 16 << 10
)

// JournalReader reads journals in pieces, however long they are and however much their
// rows say.
type JournalReader interface {
	// Journal returns at most limit rows of a run after seq, in order; fewer when they
	// say more than JournalBytes, but one if there is one. more says that others follow.
	Journal(ctx context.Context, namespace string, run events.RunID, after int64, limit int) (rows []events.RunEvent, more bool, err error)
	// Shown is Journal for people: a row that says more than ShownBytes has their
	// beginning as its data, which is no JSON then, and their number as Elided.
	Shown(ctx context.Context, namespace string, run events.RunID, after int64, limit int) ([]events.RunEvent, error)
}
