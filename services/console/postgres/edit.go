package postgres

import (
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

const editsOfRun = `
SELECT approval_id, call_id, tool, args, edited_args, coalesce(decided_by, ''), coalesce(door, ''), coalesce(comment, ''), decided_at
  FROM approvals.v_edits
 WHERE run_id = $1 AND namespace = $2
 ORDER BY decided_at DESC, approval_id LIMIT $3`

// queueEdits reads the calls of a run that people changed.
func queueEdits(b *pgx.Batch, namespace string, id events.RunID, out *[]console.Edit) {
	b.Queue(editsOfRun, string(id), namespace, console.MaxEdits).Query(func(rows pgx.Rows) (err error) {
		*out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (console.Edit, error) {
			var e console.Edit
			var args, edited json.RawMessage
			err := row.Scan(&e.ApprovalID, &e.CallID, &e.Tool, &args, &edited, &e.By, &e.Door, &e.Comment, &e.At)
			e.Args, e.Edited, e.At = args, edited, e.At.UTC()
			return e, err
		})
		return err
	})
}
