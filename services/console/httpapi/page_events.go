package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
	"github.com/holdfast-run/holdfast/web"
)

const (
	// pageEvents is how many events the page lists.
	pageEvents = 100
	// shownBody is how much of an event's body the page shows.
	shownBody = 4 << 10
	// maxTyped bounds a filter.
	maxTyped = 200
)

func (a *api) eventsPages() {
	a.door.Page("GET /ui/events", authn.Viewer, a.eventsPage)
}

type eventsPage struct {
	frame
	Kind, Run, Agent, Text string
	Kinds                  []choice
	Wrong                  map[string]string
	Problem                string
	Rows                   []eventRow
	Looked                 int
	Position               string
}

// eventRow is one event of the list.
type eventRow struct {
	Seq          uint64
	At           time.Time
	Kind, Status string
	RunID        events.RunID
	RunSeq       int64
	Name, Body   string
}

// eventsPage shows the newest events that this process has heard. Parts of them
// are a stranger's words.
func (a *api) eventsPage(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	data := eventsPage{frame: door.FrameOf(r, "Events"), Kind: strings.TrimSpace(q.Get("type")), Run: strings.TrimSpace(q.Get("run")), Agent: strings.TrimSpace(q.Get("agent")), Text: strings.TrimSpace(q.Get("text")), Wrong: map[string]string{}}
	known := data.Kind == ""
	for _, fact := range events.Facts() {
		known = known || fact.Kind == data.Kind
		data.Kinds = append(data.Kinds, choice{fact.Kind, fact.Kind == data.Kind})
	}
	known = known || data.Kind == events.TypeBudgetAlert
	data.Kinds = append(data.Kinds, choice{events.TypeBudgetAlert, data.Kind == events.TypeBudgetAlert})
	switch {
	case !known:
		data.Wrong["type"], data.Problem = "choose one of the list", fmt.Sprintf("There is no type of event %q.", data.Kind)
	case data.Run != "" && !events.RunID(data.Run).Valid():
		data.Wrong["run"], data.Problem = "the whole id, as the page of the run has it", fmt.Sprintf("%q is not the id of a run.", data.Run)
	case len(data.Agent) > maxTyped || len(data.Text) > maxTyped:
		data.Wrong["text"], data.Problem = "at most 200 bytes", "What is looked for is too long."
	}
	if data.Problem != "" {
		return web.Write(w, http.StatusUnprocessableEntity, "events", data)
	}
	found, looked, err := a.console.RecentEvents(r.Context(), data.Namespace, console.EventFilter{Kind: data.Kind, Run: events.RunID(data.Run), Name: data.Agent, Text: data.Text}, pageEvents)
	if err != nil {
		return err
	}
	data.Looked = looked
	if at := a.console.Position(); at.Epoch != "" {
		data.Position = at.String()
	}
	for _, e := range found {
		row := eventRow{Seq: e.Seq, At: e.Message.Time, Kind: e.Message.Type, Name: e.Name, Body: string(e.Message.Data)}
		if e.Run != nil {
			row.At, row.Kind, row.Status, row.RunID, row.RunSeq = e.Run.At, e.Run.Kind, e.Run.Status, e.Run.RunID, e.Run.Seq
			row.Body = string(e.Run.Data)
		}
		if len(row.Body) > shownBody {
			row.Body = strings.ToValidUTF8(row.Body[:shownBody], "") + fmt.Sprintf("\n… %d bytes in all", len(row.Body))
		} else {
			row.Body = pretty([]byte(row.Body))
		}
		if e.Run != nil && e.Run.Elided > 0 {
			row.Body = fmt.Sprintf("%d bytes, which the event does not carry: the run's journal has them", e.Run.Elided)
		}
		data.Rows = append(data.Rows, row)
	}
	return web.Write(w, http.StatusOK, "events", data)
}
