package console

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// TimelineRows is how many rows of a journal one timeline shows.
const TimelineRows = 200

// TimelineRow is what a timeline needs of a row of a journal.
type TimelineRow struct {
	Seq    int64
	At     time.Time
	Kind   string
	Cause  string
	Worker string
	Data   json.RawMessage // without texts, arguments and results
}

// What a bar of a timeline is.
const (
	BarModel  = "model"
	BarRead   = "read"   // a call that changes nothing
	BarWrite  = "write"  // a call that may change something
	BarPerson = "person" // a wait for a person
	BarChild  = "child"  // another run
	BarIdle   = "idle"   // a wait for a time, a signal, a place, an order to go on
	BarLost   = "lost"   // work that gave no answer: who did it went away
)

// What became of it.
const (
	BarDone    = ""
	BarOpen    = "open"
	BarFailed  = "failed"
	BarUnknown = "unknown" // nobody knows whether it happened
	BarRefused = "refused" // it was not made
)

// Bar is one call, or one wait, of a run.
type Bar struct {
	Seq   int64 // of the row that says the most about it
	Kind  string
	State string
	Name  string
	Note  string // a few words
	From  time.Time
	To    time.Time // of what is open: now
	Cost  int64     // micro-dollars
}

// Took is how long it took, or takes.
func (b Bar) Took() time.Duration { return max(b.To.Sub(b.From), 0) }

// TimelineLine is one line of a timeline: one bar, or those of one kind that began together.
type TimelineLine struct {
	Seq  int64 // where it began
	Bars []Bar
}

// Cut is a moment at which a worker that had gone away was replaced.
type Cut struct {
	At     time.Time
	Lost   time.Duration // since the run owed what was begun again
	Worker string        // who goes on
}

// Timeline is what a run did and waited for, in the order of its rows.
type Timeline struct {
	From, To time.Time
	Lines    []TimelineLine
	Cuts     []Cut
	Open     bool // the run goes on
}

// TimelineOf draws rows that follow each other. effects says what each tool does, as its
// definition has it; now ends what is open. It is pure, and takes rows that it cannot
// read for rows of which nothing is known.
func TimelineOf(rows []TimelineRow, effects map[string]string, now time.Time) Timeline {
	d := drawing{effects: effects, now: now, calls: map[string]*drawn{}, waits: map[string]*drawn{}}
	for _, row := range rows {
		d.row(row)
	}
	return d.done()
}

// drawn is a bar that may go on.
type drawn struct {
	Bar
	began  int64  // row that it began with
	origin string // what it shares a line with
	ended  bool
}

type drawing struct {
	effects map[string]string
	now     time.Time
	bars    []*drawn
	calls   map[string]*drawn // open ones, by the id of the call
	waits   map[string]*drawn // open ones, by what ends them
	cuts    []Cut
	first   time.Time
	last    TimelineRow
	ended   bool
	// The claim of the model call before, as far as rows of it were seen.
	epoch int64
	cause string
}

// rowData is the union of what the rows say.
type rowData struct {
	CallID       string           `json:"call_id"`
	ApprovalID   string           `json:"approval_id"`
	Tool         string           `json:"tool"`
	Status       string           `json:"status"`
	InDoubt      string           `json:"in_doubt"`
	Settled      string           `json:"settled"`
	Replayed     bool             `json:"replayed"`
	Kind         string           `json:"kind"`
	Decision     string           `json:"decision"`
	By           string           `json:"by"`
	Code         string           `json:"code"`
	Model        string           `json:"model"`
	ModelName    string           `json:"model_name"`
	NextModel    string           `json:"next_model"`
	Worker       string           `json:"worker"`
	Epoch        int64            `json:"epoch"`
	DurationMs   int64            `json:"duration_ms"`
	CostMicroUSD int64            `json:"cost_micro_usd"`
	RetryAt      *time.Time       `json:"retry_at"`
	Unasked      bool             `json:"unasked"`
	Until        time.Time        `json:"until"`
	Past         time.Time        `json:"past"`
	AcceptedAt   time.Time        `json:"accepted_at"`
	Timer        string           `json:"timer"`
	Item         string           `json:"item"`
	RunID        string           `json:"run_id"`
	Child        string           `json:"child"`
	Step         string           `json:"step"`
	Index        int              `json:"index"`
	Attempt      int              `json:"attempt"`
	At           time.Time        `json:"at"`
	Key          string           `json:"key"`
	Detached     bool             `json:"detached"`
	Ref          events.Ref       `json:"ref"`
	Calls        []askedRow       `json:"calls"`
	Release      []askedRow       `json:"release"`
	Children     []childRow       `json:"children"`
	Items        []itemRow        `json:"items"`
	Error        *events.Problem  `json:"error"`
	Problem      *events.Problem  `json:"problem"`
	Edited       bool             `json:"edited"`
	Origin       *json.RawMessage `json:"origin"`
}

type askedRow struct {
	CallID     string          `json:"call_id"`
	Tool       string          `json:"tool"`
	Route      string          `json:"route"`
	ApprovalID string          `json:"approval_id"`
	Builtin    string          `json:"builtin"`
	Problem    *events.Problem `json:"problem"`
	Wait       *struct {
		Name string `json:"name"`
	} `json:"wait"`
	Step *struct {
		Question string `json:"question"`
	} `json:"step"`
}

type childRow struct {
	Item string     `json:"item"`
	Ref  events.Ref `json:"ref"`
}

type itemRow struct {
	Item  string    `json:"item"`
	Child *childRow `json:"child"`
	Call  *askedRow `json:"call"`
	Until time.Time `json:"until"`
}

// begin opens a bar at a row.
func (d *drawing) begin(seq int64, at time.Time, kind, name, origin string) *drawn {
	b := &drawn{Bar: Bar{Seq: seq, Kind: kind, Name: name, From: at}, began: seq, origin: origin}
	d.bars = append(d.bars, b)
	return b
}

func (b *drawn) end(seq int64, at time.Time, state, note string) {
	b.To, b.State, b.ended = at, state, true
	if seq > 0 {
		b.Seq = seq
	}
	if note != "" {
		b.Note = note
	}
}

// settle ends the wait that something names, if it is known.
func (d *drawing) settle(key string, seq int64, at time.Time, state, note string) bool {
	w, ok := d.waits[key]
	if ok {
		w.end(seq, at, state, note)
		delete(d.waits, key)
	}
	return ok
}

func (d *drawing) wait(key string, seq int64, at time.Time, kind, name string) *drawn {
	b := d.begin(seq, at, kind, name, "")
	d.waits[key] = b
	return b
}

// done ends what is open now and puts what began together on one line.
func (d *drawing) done() Timeline {
	t := Timeline{From: d.first, Cuts: d.cuts, Open: !d.ended}
	end := d.last.At
	if t.Open && d.now.After(end) {
		end = d.now
	}
	t.To = end
	lines := map[string]int{}
	for _, b := range d.bars {
		if !b.ended {
			b.To, b.State = end, BarOpen
		}
		if b.From.After(b.To) {
			b.From = b.To
		}
		if !t.From.IsZero() && b.From.Before(t.From) {
			t.From = b.From
		}
		key := ""
		if b.origin != "" {
			key = fmt.Sprint(b.began, " ", b.origin, " ", b.Kind, " ", b.State == BarUnknown)
		}
		if at, ok := lines[key]; ok && key != "" {
			t.Lines[at].Bars = append(t.Lines[at].Bars, b.Bar)
			continue
		}
		lines[key] = len(t.Lines)
		t.Lines = append(t.Lines, TimelineLine{Seq: b.began, Bars: []Bar{b.Bar}})
	}
	slices.SortStableFunc(t.Lines, func(a, b TimelineLine) int { return a.Bars[0].From.Compare(b.Bars[0].From) })
	return t
}

// kindOf is what a call of a tool does. What is not known may change something.
func (d *drawing) kindOf(tool string) string {
	if d.effects[tool] == spec.EffectRead {
		return BarRead
	}
	return BarWrite
}

// TimelineReader reads what timelines are drawn from.
type TimelineReader interface {
	// Timeline reads at most limit rows of a run after seq, in order.
	Timeline(ctx context.Context, namespace string, run events.RunID, after int64, limit int) ([]TimelineRow, error)
	// ToolEffects says what the tools of a run do, as far as their definitions are there.
	ToolEffects(ctx context.Context, namespace string, run events.RunID, names []string) (map[string]string, error)
}

// DrawTimeline draws at most TimelineRows rows of a run after a row, and says how
// many there were. now is as in TimelineOf.
func (s *Service) DrawTimeline(ctx context.Context, namespace string, run events.RunID, after int64, now time.Time) (Timeline, int, error) {
	rows, err := s.Timeline(ctx, namespace, run, after, TimelineRows)
	if err != nil {
		return Timeline{}, 0, err
	}
	var tools []string
	for _, r := range rows {
		var d rowData
		if json.Unmarshal(r.Data, &d) != nil {
			continue
		}
		add := func(name string) {
			if name != "" && !slices.Contains(tools, name) {
				tools = append(tools, name)
			}
		}
		for _, c := range slices.Concat(d.Calls, d.Release) {
			add(c.Tool)
		}
		for _, i := range d.Items {
			if i.Call != nil {
				add(i.Call.Tool)
			}
		}
		add(d.Tool)
	}
	var effects map[string]string
	if len(tools) > 0 {
		if effects, err = s.ToolEffects(ctx, namespace, run, tools); err != nil {
			return Timeline{}, 0, err
		}
	}
	return TimelineOf(rows, effects, now), len(rows), nil
}
