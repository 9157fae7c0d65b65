package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/console"
	"github.com/holdfast-run/holdfast/web"
)

const (
	partEffects  = 40  // effects and approvals that a run's page lists
	partTiles    = 100 // children with their names
	partStepRows = 5000
)

// gaugeView is a ceiling as a bar: used solid, booked hatched.
type gaugeView struct {
	Name, Text, Used, Reserved, From, Class, Window string
	Mark                                            string // where an alert is told
}

// gaugesOf draws ceilings; the exact figures are the text.
func gaugesOf(budgets []console.RunBudget) (out []gaugeView) {
	for _, b := range budgets {
		share := func(n int64) float64 { return min(100*float64(n)/float64(max(b.Limit, 1)), 100) }
		used, booked := share(b.Used), share(b.Reserved)
		g := gaugeView{Name: ceilingName(b.Name), Used: percent(used), From: percent(used), Window: b.Window,
			Text: fmt.Sprintf("%s of %s", spec.Amount(b.Unit, b.Used), spec.Amount(b.Unit, b.Limit))}
		if b.Reserved > 0 {
			g.Text += "; " + spec.Amount(b.Unit, b.Reserved) + " booked"
			g.Reserved = percent(min(booked, 100-used))
		}
		switch {
		case used >= 100:
			g.Class = "full"
		case used >= 80:
			g.Class = "hot"
		}
		if strings.HasPrefix(b.Name, "pool:") {
			g.Mark = "80%"
		}
		out = append(out, g)
	}
	return out
}

func ceilingName(name string) string {
	switch name {
	case "modelCalls":
		return "Model calls"
	case "toolCalls":
		return "Tool calls"
	case "tokens":
		return "Tokens"
	case "cost":
		return "Money"
	case "steps":
		return "Answers"
	case "wallTime":
		return "Time"
	}
	if pool, ok := strings.CutPrefix(name, "pool:"); ok {
		return "Shared budget " + pool
	}
	return name
}

// partsView is what belongs to a run and lives elsewhere.
type partsView struct {
	Effects     []console.BundleEffect
	MoreEffects bool
	Asked       []console.RunApproval
	MoreAsked   bool
	Children    childrenView
	Problem     string // why something of it cannot be shown
}

// childrenView is the runs that a run started, and of a flow its steps.
type childrenView struct {
	Total  int64
	Counts []console.ChildCount // of all steps together
	Tiles  []tileView
	Rest   int64 // that have no tile
	Graph  *web.Graph
	Steps  []stepView
}

type tileView struct {
	ID                          events.RunID
	Number, Label, Class        string
	Symbol, Word, Text, Portion string
}

type stepView struct {
	Name, Kind, Href, Starts, State, Symbol, Class, Text string
}

func (a *api) partsOf(ctx context.Context, s console.Situation) (v partsView) {
	run := s.Run
	if !run.Taken() || run.Kind == console.KindProgram {
		return v
	}
	failed := func(err error) bool {
		if err != nil {
			a.console.Log().WarnContext(ctx, "part of a run not readable", "run_id", run.ID, "err", err)
			v.Problem = "A part of what belongs to this run cannot be read."
		}
		return err != nil
	}
	var err error
	if v.Effects, err = a.console.RunEffects(ctx, run.Namespace, run.ID, partEffects+1); !failed(err) && len(v.Effects) > partEffects {
		v.Effects, v.MoreEffects = v.Effects[:partEffects], true
	}
	if v.Asked, err = a.console.RunApprovals(ctx, run.Namespace, run.ID, partEffects+1); !failed(err) && len(v.Asked) > partEffects {
		v.Asked, v.MoreAsked = v.Asked[:partEffects], true
	}
	children, counts, err := a.console.ChildRuns(ctx, run.Namespace, run.ID, partTiles)
	if failed(err) {
		return v
	}
	c := &v.Children
	sums := map[string]int{}
	for _, n := range counts {
		c.Total += n.Runs
		at, ok := sums[n.Status]
		if !ok {
			at = len(c.Counts)
			sums[n.Status] = at
			c.Counts = append(c.Counts, console.ChildCount{Status: n.Status})
		}
		c.Counts[at].Runs += n.Runs
	}
	c.Rest = c.Total - int64(len(children))
	for i, child := range children {
		c.Tiles = append(c.Tiles, tileOf(i, child))
	}
	if run.Kind == events.KindFlow {
		failed(a.stepsOf(ctx, s, counts, c))
	}
	return v
}

func tileOf(i int, c console.ChildRun) tileView {
	chip := web.StatusChip(c.Status)
	t := tileView{ID: c.ID, Number: fmt.Sprintf("%02d", i+1), Label: c.Label(), Symbol: chip.Symbol, Word: chip.Word, Class: strings.TrimSuffix(strings.TrimPrefix(chip.Class, "chip "), " bare")}
	switch c.Status {
	case events.StatusWaiting, events.StatusPaused, events.StatusCancelling:
		t.Class += " held"
	}
	t.Text = cmp.Or(c.Waiting, calls(c.ToolCalls))
	if events.Ended(c.Status) {
		t.Portion = "100%"
		t.Text = calls(c.ToolCalls)
		if c.Status != events.StatusCompleted {
			t.Text = chip.Word
		}
	}
	return t
}

// stepsOf says what each step of the flow is at, as its version has them.
func (a *api) stepsOf(ctx context.Context, s console.Situation, counts []console.ChildCount, c *childrenView) error {
	versions, err := a.console.Versions(ctx, s.Run.Namespace, []events.Ref{{Kind: events.KindFlow, Digest: s.Run.Digest}})
	if err != nil || len(versions) == 0 {
		return err
	}
	flow, err := spec.DecodeFlow(versions[0].Body)
	if err != nil {
		return err
	}
	rows, err := a.console.StepRows(ctx, s.Run.Namespace, s.Run.ID, partStepRows)
	if err != nil {
		return err
	}
	states := console.StepStates(s.Run, rows, counts, s.Pending)
	nodes := flowNodes(flow)
	for i := range nodes {
		st, begun := states[nodes[i].Name]
		if !begun {
			st.State = console.StepNotBegun
			if events.Ended(s.Run.Status) {
				st.State = console.StepEnded
			}
		}
		v := stepView{Name: nodes[i].Name, Kind: nodes[i].Kind, Href: nodes[i].Href, Starts: nodes[i].Starts, State: st.State}
		v.Class, v.Symbol = stepLooks(st)
		v.Text = stepText(st)
		nodes[i].State, nodes[i].About = v.Class, strings.TrimSpace(v.State+" "+v.Text)
		c.Steps = append(c.Steps, v)
	}
	c.Graph = web.Layout(nodes)
	return nil
}

func stepLooks(s console.StepState) (class, symbol string) {
	switch {
	case s.WaitsForPeople:
		return "k-you", "s-you"
	case s.State == console.StepOpen:
		return "k-run", "s-run"
	case s.State == console.StepWaits:
		return "k-idle", "s-wait"
	case s.State == console.StepDone && s.Lost > 0:
		return "k-ok", "s-need"
	case s.State == console.StepDone:
		return "k-ok", "s-ok"
	case s.State == console.StepFailed:
		return "k-bad", "s-bad"
	case s.State == console.StepSkip:
		return "k-idle", "s-cancel"
	}
	return "k-idle", "s-queue"
}

func stepText(s console.StepState) string {
	var parts []string
	add := func(n int64, word string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, word))
		}
	}
	if s.Total > 1 {
		add(s.Done, "done")
		add(s.Open, "open")
		add(s.Total-s.Begun, "not begun")
	}
	add(s.Lost, "not completed")
	return strings.Join(parts, ", ")
}

func calls(n int64) string {
	if n == 1 {
		return "1 call"
	}
	return fmt.Sprintf("%d calls", n)
}
