package httpapi

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
	"github.com/holdfast-run/holdfast/web"
)

// Bounds of the ledger's page: rows, and doubts that are shown in full.
const (
	pageEffects = 50
	pageDoubts  = 10
)

type effectsPage struct {
	web.Frame
	Totals     tools.Totals
	Doubts     []doubtView
	Rows       []effectView
	Filter     effectFilter
	Filtered   bool
	States     []option
	Tools      []string
	Problem    string
	Next       string // the page behind
	Depth      int
	MoreDoubts bool
	Sparse     bool // a search that looked through all it may and found less than a page
	First      bool
	Empty      bool // the namespace has no effect at all
}

// effectFilter is what was typed, as it was typed.
type effectFilter struct {
	State, Tool, Run, Key, Text, From, To string
	Twice                                 bool
}

// effectView is an effect in words.
type effectView struct {
	ID, Tool, Key string
	Look          string // names its chip
	State         string // as the ledger has it
	What          string // arguments in a line
	Record        string // what became of it, or is awaited
	Program       bool
	RunID         string
	Run           string
	YesBy, YesID  string
	QuestionID    string
	Epoch         int64
	Begun         time.Time
	Calls         int64
	Twice         bool
}

// doubtView is an effect in doubt with what is known of it.
type doubtView struct {
	effectView
	Known []knownView
}

// effects answers GET /ui/effects.
func (p pages) effects(w http.ResponseWriter, r *http.Request) error {
	who, _ := authn.FromContext(r.Context())
	q := r.URL.Query()
	data := effectsPage{Frame: door.FrameOf(r, "Effects"), States: stateOptions, Depth: tools.SearchDepth}
	data.Filter = effectFilter{q.Get("state"), q.Get("tool"), q.Get("run"), strings.TrimSpace(q.Get("key")), strings.TrimSpace(q.Get("text")), q.Get("from"), q.Get("to"), q.Get("twice") != ""}
	f, err := data.Filter.filter(who.Namespace)
	if err != nil {
		data.Problem = err.Error()
		return web.Write(w, http.StatusUnprocessableEntity, "effects", data)
	}
	var after tools.Position
	if ok, err := door.DecodeCursor(q.Get("cursor"), &after); err != nil {
		return err
	} else if ok {
		f.After = &after
	}
	ctx := r.Context()
	data.Filtered, data.First = data.Filter != effectFilter{}, f.After == nil
	if data.Totals, err = p.service.Ledger().Totals(ctx, who.Namespace); err != nil {
		return err
	}
	if data.Tools, err = p.service.Ledger().Tools(ctx, who.Namespace); err != nil {
		return err
	}
	if !data.Filtered {
		f.Settled = true // doubts have a part of their own
		if data.First && data.Totals.InDoubt > 0 {
			if data.Doubts, err = p.doubts(r, who); err != nil {
				return err
			}
			data.MoreDoubts = data.Totals.InDoubt > int64(len(data.Doubts))
		}
	}
	found, next, err := p.service.Search(ctx, f)
	if err != nil {
		return err
	}
	if next != nil {
		data.Next = data.Filter.at(door.EncodeCursor(next))
		data.Sparse = f.Text != "" && len(found) < f.Limit
	}
	marks, err := p.service.Ledger().Marks(ctx, found)
	if err != nil {
		return err
	}
	for _, e := range found {
		data.Rows = append(data.Rows, viewOf(e, marks[e.ID], data.At))
	}
	data.Empty = len(found) == 0 && !data.Filtered && data.First && data.Totals.InDoubt == 0
	return web.Write(w, http.StatusOK, "effects", data)
}

func (p pages) doubts(r *http.Request, who authn.Principal) (out []doubtView, err error) {
	found, _, err := p.service.Search(r.Context(), tools.Filter{Namespace: who.Namespace, State: tools.EffectInDoubt, Limit: pageDoubts})
	if err != nil {
		return nil, err
	}
	marks, err := p.service.Ledger().Marks(r.Context(), found)
	if err != nil {
		return nil, err
	}
	for _, e := range found {
		if e, err = p.service.Effect(r.Context(), who.Namespace, e.ID); err != nil {
			return nil, problem(e.ID, err)
		}
		v := viewOf(e, marks[e.ID], time.Now())
		out = append(out, doubtView{v, knownOf(e, v)})
	}
	return out, nil
}

func (f effectFilter) filter(namespace string) (tools.Filter, error) {
	out := tools.Filter{Namespace: namespace, State: f.State, Tool: f.Tool, RunID: events.RunID(f.Run), Key: f.Key, Text: f.Text, Twice: f.Twice, Limit: pageEffects}
	if f.State != "" {
		known := false
		for _, o := range stateOptions {
			known = known || o.Value == f.State
		}
		if !known {
			return out, fmt.Errorf("there is no state %.40q; choose one of the list", f.State)
		}
	}
	if f.Run != "" && !out.RunID.Valid() {
		return out, fmt.Errorf("%.60q is not the id of a run; it is like 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a", f.Run)
	}
	if len(f.Tool) > 200 || len(f.Key) > 1000 || len(f.Text) > 200 {
		return out, fmt.Errorf("that is longer than anything that the ledger has: a text has at most 200 bytes, a key 1,000")
	}
	if strings.ContainsRune(f.Tool+f.Key+f.Text, 0) {
		return out, fmt.Errorf("no tool, key or text has a zero byte in it")
	}
	var err error
	if out.From, err = utcOf("From", f.From); err != nil {
		return out, err
	}
	if out.To, err = utcOf("To", f.To); err != nil {
		return out, err
	}
	if !out.From.IsZero() && !out.To.IsZero() && !out.From.Before(out.To) {
		return out, fmt.Errorf("From is not before To")
	}
	return out, nil
}

// at is the page behind a cursor with the same filter.
func (f effectFilter) at(cursor string) string {
	q := url.Values{}
	for name, value := range map[string]string{"state": f.State, "tool": f.Tool, "run": f.Run, "key": f.Key, "text": f.Text, "from": f.From, "to": f.To, "cursor": cursor} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if f.Twice {
		q.Set("twice", "1")
	}
	return effectsPath + "?" + q.Encode()
}

func viewOf(e tools.Effect, m tools.Mark, now time.Time) effectView {
	v := effectView{
		ID: e.ID, Tool: e.Tool, Key: e.Key, State: e.State, Look: lookOf(e), What: brief(e.Args), Program: e.OnDoubt != "",
		RunID: string(e.RunID), Run: cmp.Or(m.RunName, "run"), YesBy: m.YesBy, YesID: string(m.YesID), QuestionID: string(m.QuestionID),
		Epoch: e.Claim.Epoch, Begun: e.CreatedAt, Calls: m.Calls, Twice: m.Twice,
	}
	if string(e.Args) == "null" {
		v.What = ""
	}
	v.Record = recordOf(e, now)
	if v.Calls > 1 {
		v.Record = strings.TrimPrefix(v.Record+fmt.Sprintf(", asked for %d times", v.Calls), ", ")
	}
	return v
}

// lookOf names the chip of an effect.
func lookOf(e tools.Effect) string {
	switch {
	case e.Damaged != "":
		return "damaged"
	case e.Held():
		return tools.EffectHeld
	case e.Awaiting():
		return tools.EffectAwaiting
	case e.State == tools.EffectIntent && e.Claim.AttemptID == "":
		return "again"
	case e.Open():
		return tools.EffectInDoubt
	}
	return e.State
}

// recordOf says in words what became of an effect or what it waits for.
func recordOf(e tools.Effect, now time.Time) string {
	at := func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
	switch look := lookOf(e); look {
	case "damaged":
		return "The stored record cannot be understood: " + clip(e.Damaged, 200) + ". It is neither done nor free"
	case tools.EffectHeld:
		return "Waits until the stop is lifted"
	case tools.EffectAwaiting:
		return "The other side has accepted it; its result is awaited until " + at(e.ReplyUntil)
	case "again":
		return fmt.Sprintf("Attempt %d begins %s", e.Claim.Attempts+1, at(e.Claim.NextAttempt))
	case tools.EffectIntent:
		if left := e.Claim.LeaseUntil.Sub(now).Truncate(time.Second); left > 0 {
			return fmt.Sprintf("Lease of %s, %s left", clip(e.Claim.Worker, 60), left)
		}
		return "Its outcome is awaited from " + clip(e.Claim.Worker, 60)
	case tools.EffectInDoubt:
		switch e.InDoubt {
		case tools.DoubtProbe:
			return fmt.Sprintf("A lookup says whether it happened: the next is %s, %d decided nothing", at(e.Claim.NextAttempt), e.Probes)
		case tools.DoubtFail:
			return "Nobody is asked; the agent was told that it is not known"
		}
		return "A person has to say"
	case tools.EffectSucceeded:
		said := brief(e.Result)
		if e.SettledBy != "" {
			return strings.TrimSuffix(clip(e.SettledBy, 80)+" says so; "+said, "; ")
		}
		return said
	case tools.EffectUnknown:
		return clip(e.SettledBy, 80) + " gave up finding out; the key stays closed"
	case tools.EffectExpired:
		return "The key is used up; what was done is forgotten"
	}
	if e.Error != nil {
		return clip(e.Error.Message, 200)
	}
	return ""
}
