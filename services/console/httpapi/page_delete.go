package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
	"github.com/holdfast-run/holdfast/web"
)

func (a *api) deletePages() {
	a.door.Page("POST /ui/runs/delete", authn.Operator, a.deleteForm)
}

// deletePage asks whether runs are to be deleted, or says which were not.
type deletePage struct {
	frame
	Go    []deleteRow
	Stay  []deleteRow
	Total int // runs that go, with those below them
}

type deleteRow struct {
	ID   events.RunID
	Runs int    // the run and those below it
	Why  string // it stays
}

// mayDelete reports whether a page offers to delete a run. Whether it can go is
// looked at when it is asked for.
func mayDelete(role authn.Role, r console.Run) bool {
	return role.Allows(authn.Operator) && events.Ended(r.Status) && r.ParentRunID == "" && r.Kind != console.KindProgram
}

// deleteForm is the button of the pages, for one run or many. What it is sent first only
// asks; the page that it answers with has the button that deletes. The door has refused
// what other sites send.
func (a *api) deleteForm(w http.ResponseWriter, r *http.Request) error {
	if _, err := door.Form(r); err != nil {
		return err
	}
	ids := slices.Compact(slices.Sorted(slices.Values(r.PostForm["id"])))
	if len(ids) == 0 || len(ids) > pageRuns {
		return door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, fmt.Sprintf("%d runs are chosen; choose 1 to %d", len(ids), pageRuns))
	}
	p, _ := authn.FromContext(r.Context())
	sure := r.PostFormValue("sure") == "yes"
	data := deletePage{frame: door.FrameOf(r, "Delete runs")}
	for _, id := range ids {
		row := deleteRow{ID: events.RunID(id)}
		var err error
		if row.ID.Valid() {
			row.Runs, err = a.console.OrderDeletion(r.Context(), console.DeletionOrder{RunID: row.ID, Namespace: p.Namespace, Principal: p.Name, Reason: "from the console", DryRun: !sure})
			err = problem(err, "run %s", id)
		} else {
			err = door.NotFound("%q is not the id of a run", id)
		}
		stays, refused := errors.AsType[*door.Problem](err)
		switch {
		case err == nil:
			data.Go = append(data.Go, row)
			data.Total += row.Runs
		case sure && refused && stays.Status == http.StatusGone: // the button was pressed twice
		case refused:
			row.Why = stays.Detail
			data.Stay = append(data.Stay, row)
		default:
			return err
		}
	}
	if !sure {
		return web.Write(w, http.StatusOK, "delete", data)
	}
	if len(data.Stay) == 0 {
		http.Redirect(w, r, "/?deleted="+strconv.Itoa(data.Total), http.StatusSeeOther)
		return nil
	}
	data.Go, data.Notice = nil, deletedNotice(data.Total)
	return web.Write(w, http.StatusOK, "delete", data)
}

// deletedNotice says what was ordered.
func deletedNotice(runs int) string {
	if runs == 1 {
		return "1 run is being deleted. It is gone when nothing is owed for it any more."
	}
	return fmt.Sprintf("%d runs are being deleted, those below them among them. Each is gone when nothing is owed for it any more.", runs)
}
