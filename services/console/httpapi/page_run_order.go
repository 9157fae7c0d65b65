package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
	"github.com/holdfast-run/holdfast/web"
)

// A runOrder is something that a person can order about a run from its page. What needs
// words or cannot be undone has a page that asks; the rest is one button.
type runOrder struct {
	name string
	role authn.Role
	// can says whether the run could carry it out now.
	can func(o offers) bool
	// ask fills in the page; nil: there is none.
	ask func(a *api, ctx context.Context, p *orderPage) error
	// do gives the order and says which run's page follows.
	do func(a *api, ctx context.Context, p *orderPage) (events.RunID, error)
	// done is what the page that follows says.
	done string
}

// runOrders are all of them, in the order of the buttons.
func runOrders() []runOrder {
	return []runOrder{
		{"pause", authn.Operator, offers.pausable, nil, plainOrder(events.RunPause), "The run is asked to stand still before its next step."},
		{"resume", authn.Operator, offers.resumable, nil, plainOrder(events.RunResume), "The run is asked to go on."},
		{"retry", authn.Operator, offers.retryable, nil, (*api).retryOrder, "This run goes on from the last good row of the one that failed. What that one changed is not done again."},
		{"message", authn.Operator, offers.listens, (*api).askMessage, (*api).messageOrder, "The message is on its way. The model reads it in its next request."},
		{"signal", authn.Operator, offers.awaitsSignal, (*api).askSignal, (*api).signalOrder, "The signal is on its way."},
		{"budget", authn.Admin, offers.commandable, (*api).askBudget, (*api).budgetOrder, "The new ceiling is on its way."},
		{"migrate", authn.Operator, offers.movable, (*api).askMigrate, (*api).migrateOrder, "The run goes on under the other version when no call is open and the model is not answering."},
		{"fork", authn.Operator, offers.forkable, nil, nil, "This is the new run. It begins with the rows of the old one."},
		{"cancel", authn.Operator, offers.cancellable, (*api).askCancel, (*api).cancelOrder, "The run was asked to stop. Calls that have begun are awaited, so that their outcome is known."},
	}
}

func (a *api) orderPages() {
	for _, o := range runOrders() {
		path := "/ui/runs/{id}/" + o.name
		if o.ask != nil {
			a.door.Page("GET "+path, o.role, func(w http.ResponseWriter, r *http.Request) error { return a.askOrder(w, r, o) })
		}
		if o.do != nil {
			a.door.Page("POST "+path, o.role, func(w http.ResponseWriter, r *http.Request) error { return a.giveOrder(w, r, o) })
		}
	}
}

// offers is what decides which orders a run could carry out.
type offers struct {
	console.Run
	waits   []console.Wait
	current events.Digest // of the run's agent, as far as it is another one
}

func (o offers) commandable() bool {
	return !events.Ended(o.Status) && o.Status != events.StatusCancelling && o.Kind != console.KindProgram
}
func (o offers) cancellable() bool { return o.commandable() }
func (o offers) pausable() bool {
	return o.commandable() && o.Status != events.StatusPaused && o.Status != events.StatusAttention
}
func (o offers) resumable() bool {
	return o.Status == events.StatusPaused || o.Status == events.StatusAttention
}
func (o offers) listens() bool { return o.commandable() && o.Kind == events.KindAgent }
func (o offers) movable() bool {
	return o.listens() && o.Taken() && o.current != ""
}
func (o offers) forkable() bool { return o.Kind == events.KindAgent && o.Taken() }
func (o offers) retryable() bool {
	return o.Kind != console.KindProgram && (o.Status == events.StatusFailed || o.Status == events.StatusExpired)
}
func (o offers) awaitsSignal() bool { return o.commandable() && o.signalWait() != nil }

func (o offers) signalWait() *console.Wait {
	for i := range o.waits {
		if o.waits[i].Kind == "signal" {
			return &o.waits[i]
		}
	}
	return nil
}

// orderPage asks for what an order needs.
type orderPage struct {
	frame
	Run                 console.Run
	Why                 console.Reason
	Order, Title, Press string   // its name, what it does, its button
	Says                []string // sentences
	Touches             []touched
	Fields              []orderField
	Changes             []changeRow // of a migration
	More, Final         bool        // there are more changes; it cannot be undone
	Instead             string      // a milder order that is possible
	Problem, Key        string
	Cannot              bool // it has no button

	offers   offers
	detached []events.RunID // that it started and does not wait for
	request  *http.Request
}

type touched struct{ Text, Href, Link string }

// orderField is one thing to fill in.
type orderField struct {
	Name, Label, Hint, Value string
	Kind                     string // text, number, area, select or tick
	Options                  []orderOption
	Required                 bool
}

type orderOption struct {
	Value, Text string
	Chosen      bool
}

// orderOf reads the run that a page is about.
func (a *api) orderOf(r *http.Request, o runOrder) (*orderPage, error) {
	id, err := runIn(r)
	if err != nil {
		return nil, err
	}
	f := door.FrameOf(r, "")
	s, err := a.console.Situation(r.Context(), f.Namespace, id)
	if err != nil {
		return nil, problem(err, "run %s", id)
	}
	newer, err := a.newerVersion(r.Context(), s.Run)
	if err != nil {
		return nil, err
	}
	p := &orderPage{frame: f, Run: s.Run, Why: console.Why(s), Order: o.name, request: r}
	p.Title, p.offers = s.Run.Name, offers{Run: s.Run, waits: s.Waits(), current: newer}
	for _, w := range s.Pending {
		if w.Kind == "started" {
			p.detached = append(p.detached, events.RunID(w.Detail))
		}
	}
	return p, nil
}

func (a *api) askOrder(w http.ResponseWriter, r *http.Request, o runOrder) error {
	p, err := a.orderOf(r, o)
	if err != nil {
		return err
	}
	return a.writeOrder(w, r, o, p, http.StatusOK)
}

// writeOrder shows the page with what was typed before.
func (a *api) writeOrder(w http.ResponseWriter, r *http.Request, o runOrder, p *orderPage, status int) error {
	if err := o.ask(a, r.Context(), p); err != nil {
		return problem(err, "run %s", p.Run.ID)
	}
	for i := range p.Fields {
		f := &p.Fields[i]
		if typed, ok := r.PostForm[f.Name]; ok && len(typed) > 0 {
			f.Value = typed[0]
			for n := range f.Options {
				f.Options[n].Chosen = f.Options[n].Value == f.Value
			}
		}
	}
	p.frame.Title = p.Title
	p.Key = uuid.NewString()
	return web.Write(w, status, "order", p)
}

func (a *api) giveOrder(w http.ResponseWriter, r *http.Request, o runOrder) error {
	if _, err := door.Form(r); err != nil {
		return err
	}
	p, err := a.orderOf(r, o)
	if err != nil {
		return err
	}
	next, err := o.do(a, r.Context(), p)
	if err != nil {
		said, refused := errors.AsType[*door.Problem](problem(err, "run %s", p.Run.ID))
		if !refused || o.ask == nil || said.Status >= http.StatusInternalServerError {
			return problem(err, "run %s", p.Run.ID)
		}
		p.Problem = said.Detail
		return a.writeOrder(w, r, o, p, said.Status)
	}
	http.Redirect(w, r, fmt.Sprintf("/ui/runs/%s?done=%s", next, o.name), http.StatusSeeOther)
	return nil
}

// posted is a field of the form with the line ends that it was shown with.
func (p *orderPage) posted(name string) string {
	return strings.ReplaceAll(p.request.PostFormValue(name), "\r\n", "\n")
}

// key makes what one form sends twice one order.
func (p *orderPage) key() string {
	if k, err := uuid.Parse(p.posted("key")); err == nil {
		return "page:" + k.String()
	}
	return ""
}

func (p *orderPage) reason() string {
	if said := strings.TrimSpace(p.posted("reason")); said != "" {
		return said
	}
	return "from the console"
}

func invalid(err error) error {
	return door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, err.Error())
}

func (a *api) give(ctx context.Context, p *orderPage, o console.Order) (events.RunID, error) {
	if err := o.Check(); err != nil {
		return "", invalid(err)
	}
	_, _, err := a.console.Command(ctx, p.Namespace, p.Name, p.key(), p.Run.ID, o)
	return p.Run.ID, err
}

func plainOrder(kind string) func(*api, context.Context, *orderPage) (events.RunID, error) {
	return func(a *api, ctx context.Context, p *orderPage) (events.RunID, error) {
		return a.give(ctx, p, console.Order{Kind: kind, Reason: p.reason()})
	}
}

func (a *api) retryOrder(ctx context.Context, p *orderPage) (events.RunID, error) {
	f, err := a.console.Fork(ctx, p.Namespace, p.Name, p.key(), console.ForkOrder{From: p.Run.ID, Retry: true, Reason: p.reason()})
	return f.RunID, err
}

var reasonField = orderField{Name: "reason", Label: "Reason", Kind: "text", Hint: "Kept in the journal."}

func (a *api) askMessage(_ context.Context, p *orderPage) error {
	p.Title, p.Press, p.Cannot = "Say something to the model", "Send the message", !p.offers.listens()
	p.Says = []string{"The model reads it in its next request: behind the answer that it is giving, and not before what the run waits for has come. It answers no question and no approval."}
	p.Fields = []orderField{{Name: "text", Label: "Message", Kind: "area", Required: true, Hint: "At most 32 KiB."}}
	return nil
}

func (a *api) messageOrder(ctx context.Context, p *orderPage) (events.RunID, error) {
	text := p.posted("text")
	if err := console.CheckMessage(text); err != nil {
		return "", invalid(err)
	}
	_, _, err := a.console.Say(ctx, p.Namespace, p.Name, p.key(), p.Run.ID, text)
	if err != nil {
		return "", unheard(err, p.Run.ID)
	}
	return p.Run.ID, nil
}

func (a *api) askSignal(_ context.Context, p *orderPage) error {
	p.Title, p.Press = "Hand the run a signal", "Send the signal"
	p.Says = []string{"Its data is the result of the call that waits. A run that does not wait for it yet keeps it until it does."}
	name := ""
	if wait := p.offers.signalWait(); wait != nil {
		name = wait.Name
		p.Touches = append(p.Touches, touched{Text: wait.Phrase})
	}
	p.Cannot = !p.offers.commandable()
	p.Fields = []orderField{
		{Name: "name", Label: "Name", Kind: "text", Value: name, Required: true},
		{Name: "waitkey", Label: "Key", Kind: "text", Hint: "Only a wait with this key takes it; any of the name when it is empty."},
		{Name: "data", Label: "Data", Kind: "area", Hint: "A JSON value of at most 256 KiB."},
	}
	return nil
}

func (a *api) signalOrder(ctx context.Context, p *orderPage) (events.RunID, error) {
	o := console.Order{Kind: events.RunSignal, Signal: p.posted("name"), WaitKey: p.posted("waitkey")}
	if data := strings.TrimSpace(p.posted("data")); data != "" {
		o.Data = json.RawMessage(data)
	}
	return a.give(ctx, p, o)
}

func (a *api) askBudget(ctx context.Context, p *orderPage) error {
	p.Title, p.Press, p.Cannot = "Raise a budget", "Raise it", !p.offers.commandable()
	p.Says = []string{"A run that is paused for the budget goes on when it has room again. A shared budget is raised for every run that draws on it."}
	run, err := a.console.GetRun(ctx, p.Namespace, p.Run.ID)
	if err != nil {
		return err
	}
	var options []orderOption
	have := map[string]bool{}
	add := func(name, text string) {
		if !have[name] {
			have[name] = true
			options = append(options, orderOption{Value: name, Text: text, Chosen: len(options) == 0})
		}
	}
	for i, b := range budgetRows(run.Budgets) {
		unit := run.Budgets[i].Unit
		if unit == "micro_usd" {
			unit = "micro-dollars"
		}
		add(b.Name, fmt.Sprintf("%s: %s of %s used; the ceiling is %d %s", b.Name, b.Used, b.Limit, run.Budgets[i].Limit, unit))
	}
	for _, name := range []string{"modelCalls", "tokens", "cost", "steps", "toolCalls", "wallTime"} {
		add(name, name+": no ceiling now")
	}
	p.Fields = []orderField{
		{Name: "budget", Label: "Budget", Kind: "select", Options: options},
		{Name: "to", Label: "New ceiling", Kind: "number", Required: true, Hint: "A whole number; money in micro-dollars (1 dollar is 1000000), time in seconds."},
		reasonField,
	}
	return nil
}

func (a *api) budgetOrder(ctx context.Context, p *orderPage) (events.RunID, error) {
	to, err := strconv.ParseInt(strings.TrimSpace(p.posted("to")), 10, 64)
	if err != nil {
		return "", invalid(fmt.Errorf("%.40q is no ceiling; give a whole number over 0", p.posted("to")))
	}
	return a.give(ctx, p, console.Order{Kind: events.RunRaiseBudget, Budget: p.posted("budget"), To: to, Reason: p.reason()})
}

func (a *api) askMigrate(ctx context.Context, p *orderPage) error {
	p.Title, p.Press = "Move the run to another version", "Move the run"
	to := p.request.FormValue("to")
	if to == "" {
		to = console.ToCurrent
	}
	o := console.MigrateOrder{To: to, DryRun: true}
	if err := o.Check(); err != nil {
		return invalid(err)
	}
	m, err := a.console.Migrate(ctx, p.Namespace, p.Name, "", p.Run.ID, o)
	if err != nil {
		return err
	}
	if p.Cannot = m.Problem != nil; p.Cannot {
		p.Says = []string{"The run stays as it is: " + m.Problem.Message + "."}
		return nil
	}
	p.Says = []string{fmt.Sprintf("From %s to %s. What the run has done stays; it goes on from there under the other version.", m.From.Digest, m.To.Digest)}
	if m.Waits {
		p.Says = append(p.Says, "The run is in the middle of something. It is finished under the old version first.")
	}
	for _, c := range m.Changes {
		row := changeRow{Path: strings.TrimSpace(c.Kind + " " + c.Name + " " + c.Path), From: pretty(c.Before), To: pretty(c.After)}
		p.Changes = append(p.Changes, row)
	}
	p.More = m.More
	p.Fields = []orderField{{Name: "to", Kind: "hidden", Value: string(m.To.Digest)}, reasonField}
	return nil
}

func (a *api) migrateOrder(ctx context.Context, p *orderPage) (events.RunID, error) {
	o := console.MigrateOrder{To: p.posted("to"), Reason: p.reason()}
	if err := o.Check(); err != nil {
		return "", invalid(err)
	}
	_, err := a.console.Migrate(ctx, p.Namespace, p.Name, p.key(), p.Run.ID, o)
	if refused, ok := errors.AsType[*console.RefusedError](err); ok {
		return "", door.Error(http.StatusConflict, refused.Code, refused.Message)
	}
	return p.Run.ID, err
}
