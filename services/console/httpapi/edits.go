package httpapi

import (
	"encoding/json"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

// CallEdit is a call that a person changed before it was made.
type CallEdit struct {
	ApprovalID events.ApprovalID `json:"approval_id"`
	CallID     events.CallID     `json:"call_id"`
	Tool       string            `json:"tool"`
	Args       json.RawMessage   `json:"args" doc:"as the model wrote them"`
	Edited     json.RawMessage   `json:"edited" doc:"as they were sent, in canonical form"`
	Changes    []CallChange      `json:"changes"`
	By         string            `json:"by"`
	Door       string            `json:"door" doc:"where it was decided"`
	Comment    string            `json:"comment,omitempty"`
	At         time.Time         `json:"at"`
}

// CallChange is one place that differs.
type CallChange struct {
	Path string          `json:"path" doc:"such as $.lines[3].amount"`
	From json.RawMessage `json:"from,omitempty" doc:"absent: it was not there"`
	To   json.RawMessage `json:"to,omitempty" doc:"absent: it is taken out"`
}

func wireEdits(edits []console.Edit) []CallEdit {
	var out []CallEdit
	for _, e := range edits {
		w := CallEdit{ApprovalID: e.ApprovalID, CallID: e.CallID, Tool: e.Tool, Args: e.Args, Edited: e.Edited, Changes: []CallChange{}, By: e.By, Door: e.Door, Comment: e.Comment, At: e.At}
		for _, c := range e.Changes() {
			w.Changes = append(w.Changes, CallChange(c))
		}
		out = append(out, w)
	}
	return out
}

// editRow is a changed call on the page of its run.
type editRow struct {
	Tool, By, Door, Comment string
	At                      time.Time
	Args                    string
	Changes                 []changeRow
}

type changeRow struct{ Path, From, To string }

func editRows(edits []console.Edit) []editRow {
	var out []editRow
	for _, e := range edits {
		row := editRow{Tool: e.Tool, By: e.By, Door: e.Door, Comment: e.Comment, At: e.At, Args: pretty(e.Args)}
		for _, c := range e.Changes() {
			row.Changes = append(row.Changes, changeRow{c.Path, string(c.From), string(c.To)})
		}
		out = append(out, row)
	}
	return out
}
