package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/console"
	"github.com/holdfast-run/holdfast/web"
)

const (
	agentsPath      = "/ui/agents"
	definitionsPath = "/ui/definitions"
	pageDefinitions = 100
)

// plurals are the kinds as people call them, in the order of the page.
var plurals = []struct{ Kind, Title string }{
	{spec.KindAgent, "Agents"}, {spec.KindFlow, "Flows"}, {spec.KindTool, "Tools"}, {spec.KindModel, "Models"}, {spec.KindMCPServer, "Tool servers"},
	{spec.KindWebhook, "Webhooks"}, {spec.KindSchedule, "Schedules"}, {spec.KindBudget, "Budgets"}, {spec.KindChannel, "Channels"},
}

func titleOf(kind string) string {
	i := slices.IndexFunc(plurals, func(p struct{ Kind, Title string }) bool { return p.Kind == kind })
	if i < 0 {
		return ""
	}
	return plurals[i].Title
}

func (a *api) agentPages() {
	a.door.Page("GET "+agentsPath, authn.Viewer, a.agentsPage)
	a.door.Page("GET "+definitionsPath+"/{kind}/{name}", authn.Viewer, a.definitionPage)
	a.door.Page("GET "+definitionsPath+"/{kind}/{name}/diff", authn.Viewer, a.diffPage)
}

type kindTab struct {
	Kind, Title string
	Count       int64
	Here        bool
}

type definitionRow struct {
	Kind, Name, About string
	Version           int
	UpdatedAt         time.Time
	Model             string
	Tools             []string
	console.Activity
	Cost string
}

type agentsPage struct {
	frame
	Kind, What string
	Runs       bool // of this kind there are runs
	Tabs       []kindTab
	Rows       []definitionRow
	Next       string
	MayStart   bool
}

// agentsPage lists the definitions of one kind: agents unless another is asked for.
func (a *api) agentsPage(w http.ResponseWriter, r *http.Request) error {
	kind := r.URL.Query().Get("kind")
	if kind == "" {
		kind = spec.KindAgent
	}
	if titleOf(kind) == "" {
		return door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, "query.kind: there is no such kind; see "+agentsPath)
	}
	p, _ := authn.FromContext(r.Context())
	data := agentsPage{frame: door.FrameOf(r, "Agents and flows"), Kind: kind, What: titleOf(kind),
		Runs: kind == spec.KindAgent || kind == spec.KindFlow, MayStart: p.Role.Allows(authn.Operator)}
	counts, err := a.console.KindCounts(r.Context(), p.Namespace)
	if err != nil {
		return err
	}
	for _, k := range plurals {
		data.Tabs = append(data.Tabs, kindTab{k.Kind, k.Title, counts[k.Kind], k.Kind == kind})
	}
	found, err := a.console.Defined(r.Context(), p.Namespace, kind, r.URL.Query().Get("after"), pageDefinitions+1)
	if err != nil {
		return err
	}
	if len(found) > pageDefinitions {
		found = found[:pageDefinitions]
		data.Next = "/ui/agents?" + url.Values{"kind": {kind}, "after": {found[len(found)-1].Name}}.Encode()
	}
	active := map[string]console.Activity{}
	if data.Runs {
		if active, err = a.console.Activities(r.Context(), p.Namespace, kind); err != nil {
			return err
		}
	}
	for _, d := range found {
		data.Rows = append(data.Rows, rowOf(d, active[d.Name]))
	}
	return web.Write(w, http.StatusOK, "agents", data)
}

func rowOf(d console.Resource, active console.Activity) definitionRow {
	var body struct {
		Spec struct {
			Description string            `json:"description"`
			Model       string            `json:"model"`
			Provider    string            `json:"provider"`
			Cron        string            `json:"cron"`
			TimeZone    string            `json:"timeZone"`
			Agent       string            `json:"agent"`
			Flow        string            `json:"flow"`
			Tools       []string          `json:"tools"`
			Steps       []json.RawMessage `json:"steps"`
		} `json:"spec"`
	}
	_ = json.Unmarshal(d.Body, &body) // what has another shape shows less
	s := body.Spec
	row := definitionRow{Kind: d.Kind, Name: d.Name, About: s.Description, Version: d.Version, Activity: active, UpdatedAt: d.UpdatedAt}
	switch d.Kind {
	case spec.KindAgent:
		row.Model, row.Tools = s.Model, s.Tools
	case spec.KindFlow:
		row.About = fmt.Sprintf("%d steps", len(s.Steps))
		if len(s.Steps) == 1 {
			row.About = "1 step"
		}
	case spec.KindModel:
		row.About = s.Provider + " " + s.Model
	case spec.KindSchedule, spec.KindWebhook:
		row.About = s.Cron + " " + s.TimeZone
		if target := s.Agent + s.Flow; target != "" {
			row.About += " starts " + target
		}
	}
	if active.CostMicroUSD > 0 {
		row.Cost = spec.Amount("micro_usd", active.CostMicroUSD)
	}
	return row
}

type versionRow struct {
	Name                   string // as a link calls it
	Number                 int
	Digest, Short, By      string
	At                     time.Time
	Current, Shown, Before bool
	Runs, Open             int64
}

type definitionPage struct {
	frame
	Kind, Kinds, Name, About string
	Current                  bool
	Version                  versionRow
	Versions                 []versionRow
	ByRuns                   bool
	RunsLooked               int
	Newest, Second           string // of the versions, for the form that compares
	Referrers                []console.Referrer
	References               []spec.Reference
	Warnings                 []string
	Problem                  string // its body cannot be read by this release
	Flow                     *web.Graph
	Steps                    []web.GraphNode
	Body                     string
	MayStart                 bool
}

func versionName(v console.Version) string {
	if v.Number > 0 {
		return fmt.Sprint(v.Number)
	}
	return string(v.Digest)
}

func versionRows(all []console.Version, shown console.Version) []versionRow {
	rows := make([]versionRow, 0, len(all))
	for i, v := range all {
		rows = append(rows, versionRow{Name: versionName(v), Number: v.Number, Digest: string(v.Digest), Short: v.Digest.Short(), At: v.At, By: v.By,
			Current: v.Current, Shown: v == shown, Before: i+1 < len(all), Runs: v.Runs, Open: v.Open})
	}
	return rows
}

// definitionIn reads which definition a page is about.
func definitionIn(r *http.Request) (console.ResourceName, error) {
	name := console.ResourceName{Kind: r.PathValue("kind"), Name: r.PathValue("name")}
	if titleOf(name.Kind) == "" || !spec.ValidName(name.Name) {
		return name, door.NotFound("there is no such definition")
	}
	return name, nil
}

// definitionPage shows one version of a definition, the current one unless another is
// asked for, and what became of the name.
func (a *api) definitionPage(w http.ResponseWriter, r *http.Request) error {
	name, err := definitionIn(r)
	if err != nil {
		return err
	}
	p, _ := authn.FromContext(r.Context())
	all, err := a.console.Changed(r.Context(), p.Namespace, name.Kind, name.Name)
	if err != nil {
		return err
	}
	v, body, err := a.console.Body(r.Context(), p.Namespace, name, r.URL.Query().Get("version"))
	if err != nil {
		return problem(err, "such version of %s %q", name.Kind, name.Name)
	}
	data := definitionPage{frame: door.FrameOf(r, name.Name), Kind: name.Kind, Kinds: titleOf(name.Kind), Name: name.Name, Current: v.Current, RunsLooked: console.RunsByVersion,
		Versions: versionRows(all, v), Body: pretty(body), MayStart: p.Role.Allows(authn.Operator) && (name.Kind == spec.KindAgent || name.Kind == spec.KindFlow)}
	for _, row := range data.Versions {
		if row.Shown {
			data.Version = row
		}
	}
	data.ByRuns = name.Kind == spec.KindAgent || name.Kind == spec.KindFlow
	data.About = rowOf(console.Resource{ResourceName: name, Body: body}, console.Activity{}).About
	if len(all) > 1 {
		data.Newest, data.Second = versionName(all[0]), versionName(all[1])
	}
	if data.Referrers, err = a.console.Referrers(r.Context(), p.Namespace, name); err != nil {
		return err
	}
	doc, err := spec.Decode(body)
	if err != nil {
		data.Problem = "This release cannot read it: " + err.Error()
		return web.Write(w, http.StatusOK, "definition", data)
	}
	for _, warning := range doc.Warnings(data.At) {
		data.Warnings = append(data.Warnings, warning.Field+": "+warning.Message)
	}
	data.References = doc.References()
	if doc.Flow != nil {
		data.Steps = flowNodes(doc.Flow)
		data.Flow = web.Layout(data.Steps)
	}
	return web.Write(w, http.StatusOK, "definition", data)
}

type differRow struct {
	Path, Op string
	Lines    []console.Line
}

type diffPage struct {
	frame
	Kind, Kinds, Name string
	From, To          versionRow
	Versions          []versionRow
	Changes           []differRow
	More              bool
}

// diffPage compares two versions of a definition.
func (a *api) diffPage(w http.ResponseWriter, r *http.Request) error {
	name, err := definitionIn(r)
	if err != nil {
		return err
	}
	p, _ := authn.FromContext(r.Context())
	all, err := a.console.Changed(r.Context(), p.Namespace, name.Kind, name.Name)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	c, err := a.console.Compare(r.Context(), p.Namespace, name, q.Get("from"), q.Get("to"))
	if err != nil {
		return problem(err, "such version of %s %q", name.Kind, name.Name)
	}
	data := diffPage{frame: door.FrameOf(r, name.Name+": what changed"), Kind: name.Kind, Kinds: titleOf(name.Kind), Name: name.Name, More: c.More,
		Versions: versionRows(all, console.Version{}), From: versionRows([]console.Version{c.From}, c.From)[0], To: versionRows([]console.Version{c.To}, c.To)[0]}
	for _, x := range c.Changes {
		data.Changes = append(data.Changes, differRow{x.Path, x.Op, x.Lines()})
	}
	return web.Write(w, http.StatusOK, "diff", data)
}
