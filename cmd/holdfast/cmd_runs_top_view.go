package main

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// How things look. The terminal's own sixteen colours; NO_COLOR leaves bold, faint and
// the bar of the chosen line. Every state is a word, too.
var (
	topBold  = lipgloss.NewStyle().Bold(true)
	topFaint = lipgloss.NewStyle().Faint(true)
	topBar   = lipgloss.NewStyle().Reverse(true)
	topBad   = lipgloss.NewStyle().Foreground(lipgloss.Red)
	topYou   = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	topGo    = lipgloss.NewStyle().Foreground(lipgloss.Blue)
)

// topOrder is the order of the counts: what needs a look first.
var topOrder = []string{
	events.StatusAttention, events.StatusFailed, events.StatusRunning, events.StatusWaiting, events.StatusQueued, events.StatusPaused,
	events.StatusCancelling, events.StatusCompleted, events.StatusCancelled, events.StatusExpired,
}

func topStyle(status string) lipgloss.Style {
	switch status {
	case events.StatusAttention, events.StatusFailed:
		return topBad
	case events.StatusWaiting, events.StatusPaused:
		return topYou
	case events.StatusRunning:
		return topGo
	}
	return lipgloss.NewStyle()
}

// View implements tea.Model.
func (t *top) View() tea.View {
	v := tea.NewView(t.text())
	v.AltScreen = true
	v.WindowTitle = "holdfast runs"
	return v
}

// text is the whole view: never wider and never higher than the terminal.
func (t *top) text() string {
	lines := []string{t.head(), t.counts()}
	rows := t.shown()
	room := t.height - len(lines) - 2
	if t.open {
		lines = append(lines, t.one(room+1)...)
	} else {
		lines = append(lines, t.table(rows, room)...)
	}
	for len(lines) < t.height-1 {
		lines = append(lines, "")
	}
	return strings.Join(append(lines[:t.height-1], t.foot()), "\n")
}

func (t *top) head() string {
	state := "reading ..."
	switch {
	case !t.lost.IsZero():
		state = fmt.Sprintf("no answer since %s, trying again: %s", t.lost.UTC().Format(time.TimeOnly), t.why)
		return topBad.Render(fit("runs  "+state, t.width))
	case !t.at.IsZero():
		state = "live, " + t.at.UTC().Format(time.TimeOnly) + " UTC"
	}
	return topBold.Render(fit("runs", min(t.width, 6))) + topFaint.Render(fit(state, t.width-6))
}

func (t *top) counts() string {
	n := map[string]int{}
	for _, r := range t.runs {
		n[r.Status]++
	}
	var parts []string
	used := 0
	for _, status := range topOrder {
		if n[status] == 0 {
			continue
		}
		part := fmt.Sprintf("%d %s", n[status], strings.ReplaceAll(status, "_", " "))
		if used += len(part) + 3; used > t.width {
			break
		}
		parts = append(parts, topStyle(status).Render(part))
	}
	if len(parts) == 0 {
		return topFaint.Render(fit("no runs", t.width))
	}
	return strings.Join(parts, topFaint.Render(" · "))
}

func (t *top) table(rows []client.Run, room int) []string {
	if len(rows) == 0 {
		say := "No run yet. Start one: holdfast runs start NAME"
		if t.filter != "" {
			say = "No run of the newest " + fmt.Sprint(len(t.runs)) + " fits."
		}
		if t.at.IsZero() {
			say = ""
		}
		return []string{fit(say, t.width)}
	}
	at := t.index(rows)
	first := min(max(at-room/2, 0), max(len(rows)-room, 0))
	var out []string
	for i := first; i < min(first+max(room, 1), len(rows)); i++ {
		line, status := t.row(rows[i])
		style := topStyle(status)
		if i == at {
			style = topBar
		}
		line = style.Render(line)
		out = append(out, line)
	}
	return out
}

// row is one run, as wide as the terminal; what has no room is left out from the right.
func (t *top) row(r client.Run) (line, status string) {
	age := ""
	if !r.AcceptedAt.IsZero() && t.at.After(r.AcceptedAt) {
		age = shortAge(t.at.Sub(r.AcceptedAt))
	}
	id := string(r.RunID)
	id = id[max(len(id)-8, 0):]
	parts := fit(strings.ReplaceAll(r.Status, "_", " "), 15) + " " + fit(r.Name, 20) + " "
	if t.width >= 60 {
		parts += fit(id, 8) + " " + fit(age, 5) + " "
	}
	if t.width >= 90 {
		parts += fit(fmt.Sprintf("%d/%d", r.ModelCalls, r.ToolCalls), 8) + " "
	}
	said := r.Waiting
	if r.Error != nil && said == "" {
		said = r.Error.Message
	}
	return fit(parts+said, t.width), r.Status
}

// one is the chosen run by itself.
func (t *top) one(room int) []string {
	r, ok := t.chosen()
	if !ok {
		return []string{fit("The run is not among the newest any more.", t.width)}
	}
	lines := []string{topBold.Render(fit(r.Name+"  "+string(r.RunID), t.width)), topStyle(r.Status).Render(fit(strings.ReplaceAll(r.Status, "_", " "), t.width))}
	add := func(label, text string) {
		if text == "" {
			return
		}
		for i, part := range wrap(text, max(t.width-10, 8)) {
			if i > 0 {
				label = ""
			}
			lines = append(lines, topFaint.Render(fit(label, 10))+part)
		}
	}
	add("why", t.detail)
	add("started", stamp(r.AcceptedAt))
	add("ended", stamp(r.EndedAt))
	add("calls", fmt.Sprintf("%d of models, %d of tools, %d tokens%s", r.ModelCalls, r.ToolCalls, r.Tokens, costLine(r)))
	if r.Error != nil {
		add("error", r.Error.Code+": "+r.Error.Message)
	}
	add("more", "holdfast runs watch "+string(r.RunID))
	return lines[:min(len(lines), max(room, 1))]
}

func (t *top) foot() string {
	r, _ := t.chosen()
	switch {
	case t.sure:
		return topYou.Render(fit(fmt.Sprintf("Cancel %s %s? y cancels, any other key keeps it", r.Name, r.RunID), t.width))
	case t.typing:
		return fit("filter: "+t.filter+"_", t.width)
	case t.said != "":
		return fit(t.said, t.width)
	case t.open:
		return topFaint.Render(fit("esc back · c cancel · q quit", t.width))
	}
	keys := "enter open · / filter · c cancel · q quit"
	if t.filter != "" {
		keys = "filter “" + t.filter + "” (esc clears) · " + keys
	}
	if t.more {
		keys += fmt.Sprintf(" · the newest %d", len(t.runs))
	}
	return topFaint.Render(fit(keys, t.width))
}

// fit is s in exactly width cells, without what a terminal would obey.
func fit(s string, width int) string {
	s = strings.ReplaceAll(clean(s), "\n", " ")
	if width <= 0 {
		return ""
	}
	if lipgloss.Width(s) > width {
		var b strings.Builder
		used := 0
		for _, c := range s {
			w := lipgloss.Width(string(c))
			if used+w > width-1 {
				break
			}
			b.WriteRune(c)
			used += w
		}
		s = b.String() + "…"
	}
	return s + strings.Repeat(" ", max(width-lipgloss.Width(s), 0))
}

// wrap cuts s into lines of at most width cells.
func wrap(s string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(clean(s)) {
		if line != "" && lipgloss.Width(line)+1+lipgloss.Width(word) > width {
			lines, line = append(lines, fit(line, width)), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, fit(line, width))
}

// shortAge is a time in at most five characters.
func shortAge(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
