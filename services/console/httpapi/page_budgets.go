package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
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

const (
	budgetsPath = "/ui/budgets"
	maxGauges   = 100
)

func (a *api) budgetPages() {
	a.door.Page("GET "+budgetsPath, authn.Viewer, a.budgetsPage)
	a.door.Page("POST "+budgetsPath+"/{name}/raise", authn.Admin, a.raiseForm)
}

// gauge is one shared budget.
type gauge struct {
	ID, Name, Unit                  string
	Used, Reserved, Limit           string
	UsedPart, ReservedPart          string // of the width, in percent
	Marks                           []string
	State                           string // "", hot or full
	Near                            bool   // four fifths are used
	Window, Zone                    string
	Turns                           time.Time
	Alerts                          []console.PoolAlert
	Paused                          int64
	PausedSince                     time.Time
	Through                         events.RunID // may be raised through this run
	OnExceeded                      string
	Defined, Idle, MayRaise, Dollar bool
	Typed, Problem                  string
}

type costRow struct {
	Key, Link, Cost, Guess              string
	Calls, Input, Read, Written, Output int64
	Part                                string // of the dearest, in percent
}

type budgetsPage struct {
	frame
	Gauges                  []gauge
	More                    bool
	By, Label, Since, Until string
	Bys                     []string
	CostProblem             string
	From, To                time.Time
	Total                   costRow
	Rows                    []costRow
	MoreRows                bool
}

// budgetsPage shows shared budgets and what was spent.
func (a *api) budgetsPage(w http.ResponseWriter, r *http.Request) error {
	data := budgetsPage{frame: door.FrameOf(r, "Budgets and cost")}
	if name := r.URL.Query().Get("raised"); spec.ValidName(name) {
		data.Notice = "The raise of " + name + " is on its way. Runs that it lets go on do so by themselves, the oldest first."
	}
	return a.showBudgets(w, r, http.StatusOK, data, nil)
}

// showBudgets writes the page; wrong is what was typed into a gauge's form and why it
// was refused.
func (a *api) showBudgets(w http.ResponseWriter, r *http.Request, status int, data budgetsPage, wrong *gauge) error {
	var err error
	p, _ := authn.FromContext(r.Context())
	if data.Gauges, data.More, err = a.gauges(r, p, data.At, wrong); err != nil {
		return err
	}
	q := r.URL.Query()
	data.By, data.Label, data.Since, data.Until = q.Get("by"), q.Get("label"), q.Get("since"), q.Get("until")
	data.Bys = []string{console.CostByAgent, console.CostByFlow, console.CostByModel, console.CostByTrigger, console.CostByDay, "label"}
	by := data.By
	if by == "label" {
		by = console.CostByLabel + data.Label
	}
	query, err := console.NewCostQuery(p.Namespace, by, data.Since, data.Until, data.At)
	if err != nil {
		data.CostProblem = err.Error()
		if status == http.StatusOK {
			status = http.StatusUnprocessableEntity
		}
		return web.Write(w, status, "budgets", data)
	}
	if data.Since == "" {
		data.Since = "7d"
	}
	report, err := a.console.Cost(r.Context(), query)
	if err != nil {
		return err
	}
	data.costs(report)
	return web.Write(w, status, "budgets", data)
}

func (p *budgetsPage) costs(report console.CostReport) {
	p.From, p.To, p.MoreRows = report.Since, report.Until, report.More
	row := func(c console.CostRow) costRow {
		out := costRow{Key: c.Key, Calls: c.Calls, Input: c.InputTokens, Read: c.CacheReadTokens, Written: c.CacheWriteTokens, Output: c.OutputTokens, Cost: spec.Amount("micro_usd", c.CostMicroUSD)}
		if c.CostEstimatedMicroUSD > 0 {
			out.Guess = spec.Amount("micro_usd", c.CostEstimatedMicroUSD)
		}
		return out
	}
	most := int64(1)
	for _, c := range report.Rows {
		most = max(most, c.CostMicroUSD)
	}
	p.Total = row(report.Total)
	for _, c := range report.Rows {
		out := row(c)
		out.Part = partOf(c.CostMicroUSD, most)
		if spec.ValidName(c.Key) && (report.By == console.CostByAgent || report.By == console.CostByFlow || report.By == console.CostByModel) {
			out.Link = definitionsPath + "/" + report.By + "/" + c.Key
		}
		if key, ok := strings.CutPrefix(report.By, console.CostByLabel); ok && c.Key != "" && c.Key != "(deleted)" {
			out.Link = "/?" + url.Values{"label": {key + ":" + c.Key}}.Encode()
		}
		p.Rows = append(p.Rows, out)
	}
}

// partOf is how much of whole a part is, in tenths and at most all of it; the figures
// beside it are exact.
func partOf(part, whole int64) string {
	if whole <= 0 || part <= 0 {
		return "0%"
	}
	if part >= whole {
		return "100%"
	}
	tenths := int64(float64(part) / float64(whole) * 1000) // only how wide a bar is
	return fmt.Sprintf("%d.%d%%", tenths/10, tenths%10)
}

// gauges are the budgets that are defined or in use, by name.
func (a *api) gauges(r *http.Request, p authn.Principal, now time.Time, wrong *gauge) ([]gauge, bool, error) {
	pools, err := a.console.Pools(r.Context(), p.Namespace, "", 500)
	if err != nil {
		return nil, false, err
	}
	pauses, err := a.console.PoolPauses(r.Context(), p.Namespace)
	if err != nil {
		return nil, false, err
	}
	defined, err := a.console.Defined(r.Context(), p.Namespace, spec.KindBudget, "", maxGauges+1)
	if err != nil {
		return nil, false, err
	}
	byName := map[string]console.Pool{}
	for _, pool := range pools {
		byName[pool.Name] = pool
	}
	var out []gauge
	for _, d := range defined {
		doc, err := spec.Decode(d.Body)
		if err != nil || doc.Budget == nil {
			continue // of a newer release; its own page says so
		}
		b := doc.Budget
		pool, used := byName[d.Name]
		delete(byName, d.Name)
		if !used {
			pool = console.Pool{Name: d.Name, Unit: unitOf(b.Unit), Limit: b.CeilingAt(now)}
		}
		g := newGauge(pool, b.AlertAt, pauses[d.Name])
		g.Defined, g.Idle, g.OnExceeded = true, !used, b.OnExceeded
		if b.Window != nil {
			g.Zone, g.Turns = b.Window.TimeZone, b.Next(now).UTC()
		}
		out = append(out, g)
	}
	for _, pool := range pools { // what is no definition any more, or a flow's own
		if _, left := byName[pool.Name]; left {
			out = append(out, newGauge(pool, nil, pauses[pool.Name]))
		}
	}
	more := len(out) > maxGauges
	out = out[:min(len(out), maxGauges)]
	for i := range out {
		out[i].ID = fmt.Sprintf("b-%d", i)
		out[i].MayRaise = p.Role.Allows(authn.Admin) && out[i].Through != "" && spec.ValidName(out[i].Name)
		if wrong != nil && wrong.Name == out[i].Name {
			out[i].Typed, out[i].Problem = wrong.Typed, wrong.Problem
		}
	}
	return out, more, nil
}

// unitOf is the unit of a pool for that of a definition.
func unitOf(unit string) string {
	switch unit {
	case spec.UnitUSD:
		return "micro_usd"
	case spec.UnitSteps:
		return spec.UnitModelCalls
	}
	return unit
}

func newGauge(p console.Pool, alertAt []int64, pause console.PoolPause) gauge {
	g := gauge{Name: p.Name, Unit: p.Unit, Used: spec.Amount(p.Unit, p.Used), Limit: spec.Amount(p.Unit, p.Limit), UsedPart: partOf(p.Used, p.Limit), Window: p.Window,
		Alerts: p.Alerts, Paused: pause.Runs, PausedSince: pause.Since, Through: pause.Oldest, Dollar: p.Unit == "micro_usd"}
	if p.Reserved > 0 {
		g.Reserved, g.ReservedPart = spec.Amount(p.Unit, p.Reserved), partOf(min(p.Reserved, max(p.Limit-p.Used, 0)), p.Limit)
	}
	for _, at := range alertAt {
		if at < 100 {
			g.Marks = append(g.Marks, strconv.FormatInt(at, 10)+"%")
		}
		if p.Used > 0 && float64(p.Used) >= float64(p.Limit)/100*float64(at) { // only how it is coloured
			g.State = "hot"
		}
	}
	if p.Used > 0 && float64(p.Used) >= 0.8*float64(p.Limit) {
		g.State, g.Near = "hot", true
	}
	if p.Used >= p.Limit {
		g.State = "full"
	}
	return g
}

// raiseForm raises a shared budget through a run that waits for it, as
// POST /v1/runs/{id}/budget does.
func (a *api) raiseForm(w http.ResponseWriter, r *http.Request) error {
	if _, err := door.Form(r); err != nil {
		return err
	}
	name := r.PathValue("name")
	p, _ := authn.FromContext(r.Context())
	again := func(problem string) error {
		return a.showBudgets(w, r, http.StatusUnprocessableEntity, budgetsPage{frame: door.FrameOf(r, "Budgets and cost")}, &gauge{Name: name, Typed: r.PostForm.Get("to"), Problem: problem})
	}
	pools, err := a.console.Pools(r.Context(), p.Namespace, name, 1)
	if err != nil {
		return err
	}
	pauses, err := a.console.PoolPauses(r.Context(), p.Namespace)
	if err != nil {
		return err
	}
	if len(pools) == 0 || !spec.ValidName(name) {
		return door.NotFound("no run has drawn on such a budget")
	}
	pool, through := pools[0], pauses[name].Oldest
	to, ok := ceilingTyped(pool.Unit, r.PostForm.Get("to"))
	switch {
	case !ok && pool.Unit == "micro_usd":
		return again("is not an amount in dollars like 2.50")
	case !ok:
		return again("is not a whole number over 0")
	case to <= pool.Limit:
		return again("is not more than the limit of now, " + spec.Amount(pool.Unit, pool.Limit))
	case through == "":
		return again("cannot be raised from here: no run waits for it any more. Apply it with a higher limit")
	}
	order := console.Order{Kind: events.RunRaiseBudget, Budget: "pool:" + name, To: to, Reason: "from the console"}
	if err := order.Check(); err != nil {
		return again(err.Error())
	}
	if _, _, err := a.console.Command(r.Context(), p.Namespace, p.Name, "", through, order); err != nil {
		return problem(err, "run %s", through)
	}
	http.Redirect(w, r, budgetsPath+"?"+url.Values{"raised": {name}}.Encode(), http.StatusSeeOther)
	return nil
}

// ceilingTyped reads a ceiling as people write it: dollars or a whole number.
func ceilingTyped(unit, text string) (int64, bool) {
	text = strings.TrimSpace(text)
	if unit == "micro_usd" {
		v, ok := spec.ParseMicroUSD(strings.TrimPrefix(text, "$"))
		return int64(v), ok && v > 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n > 0
}
