package httpapi

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/console"
	"github.com/holdfast-run/holdfast/web"
)

// pageRuns is how many runs a page lists.
const pageRuns = 50

var statuses = []string{
	events.StatusQueued, events.StatusRunning, events.StatusWaiting, events.StatusPaused, events.StatusAttention, events.StatusCancelling,
	events.StatusCompleted, events.StatusFailed, events.StatusCancelled, events.StatusExpired,
}

var triggers = []string{"webhook", "schedule", "api", "event", "child", "fork"}

func (a *api) runsPages() {
	a.door.Page("GET /{$}", authn.Viewer, a.runsPage)
}

type runsPage struct {
	frame
	Five     []answer
	Views    []viewLink
	Typed    FindRuns
	Statuses []choice
	Triggers []choice
	Labels   []string // what was typed, and an empty one for the next
	Narrowed int      // fields behind "More filters" that are filled
	Wrong    map[string]string
	Problem  string
	Rows     []runRow
	Next     string
	Looked   string
	First    string // the page without the cursor; empty on it
	Operator bool
	Orders   []bulkButton
	Kept     []keptField
}

// bulkButton orders the same about many runs; keptField keeps a filter in that form.
type bulkButton struct {
	Order, Verb string
	Final       bool
}

type keptField struct{ Name, Value string }

// choice is one value of a field.
type choice struct {
	Value string
	On    bool
}

// viewLink is a list that people ask for often, with the other filters kept.
type viewLink struct {
	Title, Path string
	On          bool
}

// runRow is one run of the list.
type runRow struct {
	ID                 events.RunID
	Status, Name, From string
	Sentence           string
	At                 time.Time
	For                string
	Steps              int64
	Cost, Estimated    string
}

func (a *api) runsPage(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	now := time.Now().UTC()
	p, _ := authn.FromContext(r.Context())
	data := runsPage{frame: door.FrameOf(r, "Runs"), Typed: typedFilter(q), Wrong: map[string]string{}, Operator: p.Role.Allows(authn.Operator)}
	data.fields()
	if n, err := strconv.Atoi(q.Get("deleted")); err == nil && n > 0 {
		data.Notice = deletedNotice(n)
	}
	five, err := a.console.Answers(r.Context(), p.Namespace, console.Today(now), now)
	if err != nil {
		return err
	}
	data.Five, data.Counts = fiveAnswers(five), countsOf(five)
	filter, err := data.Typed.filter(p.Namespace, now)
	if err == nil {
		filter.Limit = pageRuns
		err = a.runRows(r, filter, q.Get("cursor"), now, &data)
	}
	status := http.StatusOK
	if err != nil {
		wrong, ours := errors.AsType[*door.Problem](err)
		if !ours || wrong.Status >= http.StatusInternalServerError {
			return err
		}
		status, data.Problem = wrong.Status, wrong.Detail
		for _, one := range wrong.Errors {
			data.Wrong[strings.TrimPrefix(one.Field, "query.")] = one.Message
		}
	}
	return web.Write(w, status, "runs", data)
}

// runRows fills in the list: two reads for the runs, and one or two for what they wait for.
func (a *api) runRows(r *http.Request, f console.RunFilter, cursor string, now time.Time, data *runsPage) error {
	found, err := a.find(r.Context(), f, data.Typed.Text, cursor)
	if err != nil {
		return err
	}
	situations, err := a.console.Situations(r.Context(), f.Namespace, found.Runs)
	if err != nil {
		return err
	}
	for _, s := range situations {
		data.Rows = append(data.Rows, runRowOf(s, now))
	}
	here := data.Typed.values()
	if data.Operator {
		for _, o := range bulkOrders {
			data.Orders = append(data.Orders, bulkButton{o.name, o.verb, o.final})
		}
		for _, name := range slices.Sorted(maps.Keys(here)) {
			for _, value := range here[name] {
				data.Kept = append(data.Kept, keptField{name, value})
			}
		}
	}
	if cursor != "" {
		data.First = listPath(here)
	}
	if found.Next != "" {
		here.Set("cursor", door.EncodeCursor(runCursor{found.Next}))
		data.Next = listPath(here)
	}
	if found.Looked {
		data.Looked = web.Thousands(console.FindLook)
	}
	return nil
}

// runRowOf shows a run in a list, with the sentence of /why.
func runRowOf(s console.Situation, now time.Time) runRow {
	run := s.Run
	row := runRow{ID: run.ID, Status: run.Status, Name: run.Name, At: run.AcceptedAt, Sentence: console.Why(s).Sentence, Steps: run.ModelCalls + run.ToolCalls}
	until := now
	if !run.EndedAt.IsZero() {
		until = run.EndedAt
	}
	row.For = web.Span(until.Sub(run.AcceptedAt))
	if run.Kind != console.KindProgram { // what programs spend we do not know
		row.Cost = dollars(run.CostMicroUSD)
	}
	if run.CostEstimatedMicroUSD > 0 {
		row.Estimated = dollars(run.CostEstimatedMicroUSD)
	}
	var from events.Trigger
	switch {
	case run.Kind == console.KindProgram:
		row.From = "program of " + run.Principal
	case len(run.Trigger) > 0 && json.Unmarshal(run.Trigger, &from) == nil && from.Kind == "child":
		row.From = "started by " + from.Name
	default:
		row.From = strings.TrimSpace(from.Kind + " " + from.Name)
	}
	return row
}

func dollars(micro int64) string { return "$" + spec.MicroUSD(micro).String() }

// typedFilter is what the fields hold.
func typedFilter(q url.Values) FindRuns {
	return FindRuns{
		Agent: q.Get("agent"), Flow: q.Get("flow"), Program: q.Get("program"), Status: given(q["status"]), Trigger: q.Get("trigger"), Source: q.Get("source"),
		Label: given(q["label"]), From: q.Get("from"), To: q.Get("to"), Cost: q.Get("cost"), Text: q.Get("text"), Parent: events.RunID(q.Get("parent")),
	}
}

// given leaves out what was left empty, and what is more than a list takes.
func given(values []string) []string {
	values = slices.DeleteFunc(slices.Clone(values), func(v string) bool { return v == "" })
	return values[:min(len(values), 16)]
}

// values is the query that asks for the same.
func (in FindRuns) values() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{"agent": in.Agent, "flow": in.Flow, "program": in.Program, "trigger": in.Trigger, "source": in.Source,
		"from": in.From, "to": in.To, "cost": in.Cost, "text": in.Text, "parent": string(in.Parent)} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for name, values := range map[string][]string{"status": in.Status, "label": in.Label} {
		if len(values) > 0 {
			q[name] = values
		}
	}
	return q
}

func listPath(q url.Values) string {
	if len(q) == 0 {
		return "/"
	}
	return "/?" + q.Encode()
}

// fields fills in what can be chosen.
func (d *runsPage) fields() {
	in := d.Typed
	for _, s := range statuses {
		d.Statuses = append(d.Statuses, choice{s, slices.Contains(in.Status, s)})
	}
	for _, t := range triggers {
		d.Triggers = append(d.Triggers, choice{t, t == in.Trigger})
	}
	if in.Trigger != "" && !slices.Contains(triggers, in.Trigger) {
		d.Triggers = append(d.Triggers, choice{in.Trigger, true})
	}
	d.Labels = slices.Clone(in.Label)
	if len(d.Labels) < 16 {
		d.Labels = append(d.Labels, "")
	}
	for _, text := range []string{in.Flow, in.Source, strings.Join(in.Label, ""), in.To, in.Cost, in.Program, string(in.Parent), strings.Join(in.Status, "")} {
		if text != "" {
			d.Narrowed++
		}
	}
	for _, v := range []struct {
		title    string
		statuses []string
	}{
		{"All", nil}, {"Open", statuses[:6]}, {"Stuck", []string{events.StatusPaused, events.StatusAttention}}, {"Failed", []string{events.StatusFailed, events.StatusExpired}}, {"Ended", statuses[6:]},
	} {
		to := in
		to.Status = v.statuses
		d.Views = append(d.Views, viewLink{v.title, listPath(to.values()), slices.Equal(v.statuses, in.Status)})
	}
}
