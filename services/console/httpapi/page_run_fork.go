package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/console"
	"github.com/holdfast-run/holdfast/web"
)

const (
	forkTurns   = 50       // answers that the page offers to go on from
	forkShown   = 20       // effects that it lists
	forkEditing = 64 << 10 // longer texts are not put into the form
)

// forkPage asks where a new run goes on from and what is different there.
type forkPage struct {
	orderPage
	At      int64
	Turns   []orderOption
	Calls   []orderOption
	Input   string
	Prompt  string
	Orders  string // instructions of the agent
	Message string
	Call    string
	Result  string
	Reason  string
	// Long names what is too long for the form; it can be replaced, not edited.
	Long   []string
	Behind []events.PastEffect
	Rest   bool // there are more
	Open   bool // something was edited
}

func (a *api) forkPages() {
	a.door.Page("GET /ui/runs/{id}/fork", authn.Operator, a.askFork)
	a.door.Page("POST /ui/runs/{id}/fork", authn.Operator, a.fork1)
}

func forkOrderOf() runOrder {
	for _, o := range runOrders() {
		if o.name == events.RunFork {
			return o
		}
	}
	return runOrder{}
}

func (a *api) askFork(w http.ResponseWriter, r *http.Request) error {
	p, err := a.forkOf(r)
	if err != nil {
		return err
	}
	return web.Write(w, http.StatusOK, "fork", p)
}

// forkOf reads the run, and fills in the form with what it began with.
func (a *api) forkOf(r *http.Request) (*forkPage, error) {
	o, err := a.orderOf(r, forkOrderOf())
	if err != nil {
		return nil, err
	}
	p := &forkPage{orderPage: *o}
	p.Title, p.frame.Title, p.Key = "Fork the run", "Fork "+p.Run.Name, uuid.NewString()
	switch {
	case p.Run.Kind == console.KindProgram:
		p.Cannot, p.Says = true, []string{"Its own program drives this run, so there are no rows that another run could begin with."}
	case p.Run.Kind != events.KindAgent:
		p.Cannot, p.Says = true, []string{"A flow has no turns to go on from. Fork or retry the runs of its steps."}
	case !p.Run.Taken():
		p.Cannot, p.Says = true, []string{"No runner has the run yet. There is nothing to go on from."}
	}
	if p.Cannot {
		return p, nil
	}
	if p.At, err = rowIn(r, "at"); err != nil {
		return nil, err
	}
	p.Call = r.FormValue("call")
	if err := a.forkDefaults(r.Context(), p); err != nil {
		return nil, problem(err, "run %s", p.Run.ID)
	}
	return p, a.forkChoices(r.Context(), p)
}

// rowIn reads the number of a row; 0 without one.
func rowIn(r *http.Request, name string) (int64, error) {
	text := r.FormValue(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, fmt.Sprintf("%s is %.40q; rows of a journal are numbered from 1", name, text))
	}
	return n, nil
}

// forkDefaults are what the run began with.
func (a *api) forkDefaults(ctx context.Context, p *forkPage) error {
	fit := func(name, text string) string {
		if len(text) > forkEditing {
			p.Long = append(p.Long, name)
			return ""
		}
		return text
	}
	p.Input = fit("input", pretty(p.Run.Input))
	versions, err := a.console.Versions(ctx, p.Namespace, []events.Ref{{Kind: p.Run.Kind, Digest: p.Run.Digest}})
	if err != nil || len(versions) == 0 {
		return err
	}
	if agent, err := spec.DecodeAgent(versions[0].Body); err == nil {
		p.Orders = fit("instructions", agent.Instructions)
		if first, err := spec.FirstMessage(agent, p.Run.Input); err == nil {
			p.Prompt = fit("prompt", first)
		}
	}
	return nil
}

// forkChoices lists the rows and calls that can be chosen, and what the run changed
// behind the row.
func (a *api) forkChoices(ctx context.Context, p *forkPage) error {
	to := int64(math.MaxInt64)
	if p.At > 0 {
		to = p.At + 2*forkTurns
	}
	turns, err := a.console.PastTurns(ctx, p.Namespace, p.Run.ID, to, forkTurns)
	if err != nil {
		return err
	}
	p.Turns = []orderOption{{Value: "0", Text: "as late as it makes sense", Chosen: p.At == 0}}
	chosen := p.At == 0
	for _, t := range turns {
		if t.Seq < 2 {
			continue
		}
		what := cmp.Or(strings.Join(strings.Fields(t.Text), " "), "asks for "+strings.Join(t.Asks, ", "))
		o := orderOption{Value: strconv.FormatInt(t.Seq-1, 10), Text: fmt.Sprintf("before the answer in row %d: %s", t.Seq, clipText(what, 90)), Chosen: p.At == t.Seq-1}
		chosen = chosen || o.Chosen
		p.Turns = append(p.Turns, o)
	}
	if !chosen {
		p.Turns = append(p.Turns, orderOption{Value: strconv.FormatInt(p.At, 10), Text: fmt.Sprintf("after row %d, or the last one before it that is between two turns", p.At), Chosen: true})
		to = p.At
	} else if p.At > 0 {
		to = p.At
	}
	results, err := a.console.PastResults(ctx, p.Namespace, p.Run.ID, to, forkTurns)
	if err != nil {
		return err
	}
	p.Calls = []orderOption{{Text: "none", Chosen: p.Call == ""}}
	for _, c := range results {
		o := orderOption{Value: string(c.CallID), Text: fmt.Sprintf("%s, row %d", c.Tool, c.Seq), Chosen: p.Call == string(c.CallID)}
		if o.Chosen && c.Whole {
			p.Result, p.Open = pretty(json.RawMessage(c.Result)), true
		}
		p.Calls = append(p.Calls, o)
	}
	p.Behind, err = a.console.PastEffects(ctx, p.Namespace, p.Run.ID, p.At, forkShown+1)
	if p.Rest = len(p.Behind) > forkShown; p.Rest {
		p.Behind = p.Behind[:forkShown]
	}
	return err
}

// clipText is the beginning of a text, in whole characters.
func clipText(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n]) + " …"
}

// fork1 begins the new run. What the form shows unchanged is no edit.
func (a *api) fork1(w http.ResponseWriter, r *http.Request) error {
	if _, err := door.Form(r); err != nil {
		return err
	}
	p, err := a.forkOf(r)
	if err != nil {
		return err
	}
	o := console.ForkOrder{From: p.Run.ID, At: p.At, Reason: p.reason()}
	if text := p.posted("input"); text != "" && !sameJSON(text, p.Run.Input) {
		o.Edits.Input = json.RawMessage(text)
	}
	if text := p.posted("prompt"); text != p.Prompt && text != "" {
		o.Edits.Prompt = text
	}
	if text := p.posted("instructions"); text != p.Orders && text != "" {
		o.Edits.Instructions = text
	}
	o.Edits.Message = p.posted("message")
	if id, text := events.CallID(p.posted("call")), strings.TrimSpace(p.posted("result")); id != "" && text != "" && !sameJSON(text, json.RawMessage(p.Result)) {
		o.Edits.Results = map[events.CallID]json.RawMessage{id: json.RawMessage(text)}
	}
	fork, err := a.forked(r.Context(), p, o)
	if err == nil {
		http.Redirect(w, r, fmt.Sprintf("/ui/runs/%s?done=fork", fork.RunID), http.StatusSeeOther)
		return nil
	}
	said, refused := errors.AsType[*door.Problem](err)
	if !refused || said.Status >= http.StatusInternalServerError {
		return err
	}
	p.Problem, p.Open = said.Detail, true
	p.Input, p.Prompt, p.Orders, p.Message = p.posted("input"), p.posted("prompt"), p.posted("instructions"), o.Edits.Message
	p.Result, p.Reason = p.posted("result"), p.posted("reason")
	return web.Write(w, said.Status, "fork", p)
}

func (a *api) forked(ctx context.Context, p *forkPage, o console.ForkOrder) (console.Fork, error) {
	if err := o.Check(); err != nil {
		return console.Fork{}, invalid(err)
	}
	f, err := a.console.Fork(ctx, p.Namespace, p.Name, p.key(), o)
	return f, problem(err, "run %s", o.From)
}

// sameJSON reports whether a text is the value that was shown.
func sameJSON(text string, shown json.RawMessage) bool {
	a, errA := events.Canonical(json.RawMessage(text))
	b, errB := events.Canonical(shown)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}
