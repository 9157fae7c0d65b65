package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/console"
	"github.com/holdfast-run/holdfast/web"
)

// shared is how many bars share a line; more are one bar that opens as a list.
const shared = 3

// timelineView is a timeline in attributes of SVG, which are percentages of its width.
type timelineView struct {
	Lines []lineView
	Gaps  []gapView
	Ticks []tickView
	Cuts  []cutView
	Foot  []string
	Open  bool
	Empty string
	// Earlier and Later are rows around which the windows beside this one are.
	First, Last, Earlier, Later int64
}

type lineView struct {
	ID, Href, Symbol, Text, Label string
	Seq                           int64
	Took, Cost                    string
	Bars                          []barView
	List                          []barView // of more than shared
}

type barView struct {
	Class, Fill, X, W, Y, H, Href, Title string
}

type gapView struct{ X, W, Mid, Text string }

type tickView struct {
	X, Text string
	Alt     bool // left out where there is little room
}

type cutView struct{ X, Text, Anchor string }

// percent writes a place without an exponent.
func percent(x float64) string { return strconv.FormatFloat(x, 'f', 2, 64) + "%" }

// timeline draws the rows around one, or the newest. here are the rows of the journal that
// the page shows, so that a bar leads to its row without another page.
func (a *api) timeline(ctx context.Context, run console.Run, at int64, now time.Time, here [2]int64) (v timelineView, err error) {
	switch {
	case run.Kind == console.KindProgram:
		v.Empty = "Its own program drives this run: what it calls is its own affair. The journal has its checkpoints."
		return v, nil
	case !run.Taken():
		v.Empty = "Nothing yet: no runner has taken the run."
		return v, nil
	}
	after := windowAfter(run.Seq, at, console.TimelineRows)
	t, n, err := a.console.DrawTimeline(ctx, run.Namespace, run.ID, after, now)
	if err != nil {
		return v, err
	}
	v = viewOf(t, func(seq int64) string { return rowHref(run.ID, seq, here) })
	v.First, v.Last = after+1, min(after+int64(n), run.Seq)
	if after > 0 {
		v.Earlier = max(after-console.TimelineRows/2, 1)
	}
	if v.Last < run.Seq {
		v.Later = v.Last + console.TimelineRows/2
	}
	if len(v.Lines) == 0 {
		v.Empty = "Nothing was called in these rows."
	}
	return v, nil
}

// windowAfter is the row before a window of so many rows around one; 0 asks for the newest.
func windowAfter(newest, at, rows int64) int64 {
	if at == 0 {
		return max(newest-rows, 0)
	}
	return max(min(at-rows/2, newest-rows), 0)
}

// rowHref leads to a row of the journal.
func rowHref(run events.RunID, seq int64, here [2]int64) string {
	if seq >= here[0] && seq <= here[1] {
		return fmt.Sprintf("#f%d", seq)
	}
	return fmt.Sprintf("/ui/runs/%s?at=%d#f%d", run, seq, seq)
}

func viewOf(t console.Timeline, href func(int64) string) (v timelineView) {
	s := console.ScaleOf(t)
	v.Open = t.Open
	for _, g := range s.Gaps {
		v.Gaps = append(v.Gaps, gapView{percent(g.Left), percent(g.Width), percent(g.Left + g.Width/2), web.Span(g.Truncated)})
	}
	ticks, step := s.Ticks()
	for i, at := range ticks {
		if t.Open && s.X(at) > 80 { // "now" stands there
			break
		}
		v.Ticks = append(v.Ticks, tickView{percent(s.X(at)), tickText(at, step), i%3 != 0})
	}
	var lost time.Duration
	for _, c := range t.Cuts {
		x, anchor := s.X(c.At), "start"
		if x > 35 {
			anchor = "end"
		}
		v.Cuts = append(v.Cuts, cutView{percent(x), "begun again after " + web.Span(c.Lost), anchor})
		lost += c.Lost
	}
	if n := len(t.Cuts); n > 3 { // their words would cover each other
		for i := range v.Cuts {
			v.Cuts[i].Text = ""
		}
	}
	for _, c := range t.Cuts[:min(len(t.Cuts), 3)] {
		v.Foot = append(v.Foot, fmt.Sprintf("Who made a model call went away. %s began it again at %s, %s after it was owed; every row from before was kept, and no call that was finished is made again.",
			cmp.Or(c.Worker, "Another"), c.At.UTC().Format("15:04:05"), web.Span(c.Lost)))
	}
	if n := len(t.Cuts); n > 3 {
		v.Foot = append(v.Foot, fmt.Sprintf("That happened %d times; %s were lost in all.", n, web.Span(lost)))
	}
	if len(v.Gaps) > 0 {
		v.Foot = append(v.Foot, "The grey parts are not to scale.")
	}
	for _, line := range t.Lines {
		v.Lines = append(v.Lines, lineOf(line, s, href))
	}
	return v
}

func tickText(at time.Time, step time.Duration) string {
	switch {
	case step < time.Second:
		return at.UTC().Format("15:04:05.0")
	case step < 12*time.Hour:
		return at.UTC().Format("15:04:05")
	}
	return at.UTC().Format("2 Jan 15:04")
}

// lineOf draws the bars of a line, or one bar for all when they are many.
func lineOf(line console.TimelineLine, s console.Scale, href func(int64) string) lineView {
	first := line.Bars[0]
	v := lineView{ID: fmt.Sprintf("t%d-%s", line.Seq, slug(first)), Seq: line.Seq, Href: href(first.Seq), Text: first.Name, Symbol: symbolOf(first)}
	var cost int64
	whole := first
	for _, b := range line.Bars {
		cost += b.Cost
		if b.From.Before(whole.From) {
			whole.From = b.From
		}
		if b.To.After(whole.To) {
			whole.To = b.To
		}
		if b.State == console.BarOpen || b.State == console.BarFailed && whole.State != console.BarOpen {
			whole.State = b.State
		}
	}
	if n := len(line.Bars); n > 1 {
		name := first.Name
		if step, _, ok := strings.Cut(name, "/"); ok && first.Kind == console.BarChild {
			name = step
		}
		v.Text = fmt.Sprintf("%s ×%d", name, n)
	}
	if note := notesOf(line.Bars); note != "" {
		v.Text += ", " + note
	}
	v.Took = web.Span(whole.Took())
	if cost > 0 {
		v.Cost = spec.Amount("micro_usd", cost)
	}
	v.Label = fmt.Sprintf("%s: %s, %s to %s, %s", kindWords(first.Kind), v.Text, whole.From.UTC().Format("15:04:05"), endWords(whole), v.Took)
	drawn := line.Bars
	if len(drawn) > shared {
		for _, b := range drawn {
			v.List = append(v.List, barView{Href: href(b.Seq), Title: barTitle(b)})
		}
		drawn = []console.Bar{whole}
	}
	for i, b := range drawn {
		v.Bars = append(v.Bars, drawBar(b, i, len(drawn), s, href))
	}
	return v
}

// slug makes two lines that begin at one row differ in their ids.
func slug(b console.Bar) string {
	word := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}
	return b.Kind + "-" + strings.Map(word, strings.ToLower(b.Name[:min(len(b.Name), 60)])) + map[bool]string{true: "-doubt"}[b.State == console.BarUnknown]
}

// notesOf are the notes of all bars of a line, each once.
func notesOf(bars []console.Bar) string {
	var out []string
	for _, b := range bars {
		note := b.Note
		if b.State == console.BarFailed && note == "" {
			note = "failed"
		}
		if note != "" && !slices.Contains(out, note) {
			out = append(out, note)
		}
	}
	return strings.Join(out[:min(len(out), 2)], ", ")
}

func barTitle(b console.Bar) string {
	text := fmt.Sprintf("%s, %s", b.Name, web.Span(b.Took()))
	if b.State != console.BarDone {
		text += ", " + b.State
	}
	if b.Note != "" {
		text += ", " + b.Note
	}
	return text
}

func endWords(b console.Bar) string {
	if b.State == console.BarOpen {
		return "now"
	}
	return b.To.UTC().Format("15:04:05")
}

func kindWords(kind string) string {
	switch kind {
	case console.BarModel:
		return "model"
	case console.BarRead:
		return "tool that reads"
	case console.BarWrite:
		return "tool that changes something"
	case console.BarPerson:
		return "waits for a person"
	case console.BarChild:
		return "another run"
	case console.BarLost:
		return "lost"
	}
	return "waits"
}

func symbolOf(b console.Bar) string {
	switch {
	case b.State == console.BarUnknown:
		return "s-doubt"
	case b.Kind == console.BarModel:
		return "r-model"
	case b.Kind == console.BarRead:
		return "r-read"
	case b.Kind == console.BarWrite:
		return "r-write"
	case b.Kind == console.BarPerson:
		return "s-you"
	case b.Kind == console.BarChild:
		return "s-flow"
	case b.Kind == console.BarLost:
		return "s-bad"
	}
	return "s-wait"
}

// drawBar places one of up to three bars of a line.
func drawBar(b console.Bar, i, n int, s console.Scale, href func(int64) string) barView {
	left, right := s.X(b.From), s.X(b.To)
	const least = 0.4 // so that it can be seen
	width := max(right-left, least)
	left = min(left, 100-width)
	v := barView{X: percent(left), W: percent(width), Y: "27%", H: "46%", Href: href(b.Seq), Title: barTitle(b)}
	switch n {
	case 2:
		v.Y, v.H = []string{"14%", "56%"}[i], "30%"
	case 3:
		v.Y, v.H = []string{"6%", "38%", "70%"}[i], "24%"
	}
	switch {
	case b.State == console.BarUnknown:
		v.Class = "b-doubt"
	case b.State == console.BarFailed && b.Kind != console.BarLost:
		v.Class = "b-" + b.Kind + " b-failed"
	case b.State == console.BarRefused && b.Kind != console.BarPerson:
		v.Class = "b-refused"
	case b.Kind == console.BarPerson:
		v.Class, v.Fill = "b-person", "url(#r-hatch)"
	default:
		v.Class = "b-" + b.Kind
	}
	if b.State == console.BarOpen {
		v.Class += " b-open"
	}
	return v
}
