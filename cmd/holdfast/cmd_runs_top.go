package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

const (
	topRuns  = 200             // of the newest are looked at
	topEvery = 2 * time.Second // how often
)

// topServer is what the view asks.
type topServer interface {
	Runs(ctx context.Context, f client.RunFilter, p client.PageRequest) (client.Page[client.Run], error)
	Why(ctx context.Context, id events.RunID) (client.Why, error)
	Cancel(ctx context.Context, id events.RunID, reason string) (client.Commanded, error)
}

// top follows all runs: on a terminal as a view that is steered by keys, elsewhere as a
// line for each change.
func (c *RunsWatchCmd) top(ctx context.Context, k *kong.Context, api topServer) error {
	if c.JSON || !isTerminal(os.Stdout) || !isTerminal(os.Stdin) {
		return c.lines(ctx, k, api, topEvery)
	}
	_, err := tea.NewProgram(newTop(ctx, api), tea.WithContext(ctx)).Run()
	if ctx.Err() != nil || errors.Is(err, tea.ErrInterrupted) {
		return nil // it is ended by Ctrl-C; the runs go on
	}
	return err
}

// lines prints each run when it is first seen and whenever its status or what it waits
// for changes, until ctx ends.
func (c *RunsWatchCmd) lines(ctx context.Context, k *kong.Context, api topServer, every time.Duration) error {
	last := map[events.RunID]string{}
	lost := false
	for {
		page, err := api.Runs(ctx, client.RunFilter{}, client.PageRequest{Limit: topRuns})
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && client.StatusOf(err) != 0 && client.StatusOf(err) < 500:
			return advise(err, "")
		case err != nil:
			if !lost {
				fmt.Fprintf(k.Stderr, "the server does not answer, trying again: %s\n", clean(err.Error()))
			}
			lost = true
		default:
			if lost {
				fmt.Fprintln(k.Stderr, "the server answers again")
			}
			lost = false
			now := map[events.RunID]string{}
			for _, r := range slices.Backward(page.Items) {
				state := r.Status + "\x00" + r.Waiting
				if now[r.RunID] = state; last[r.RunID] == state {
					continue
				}
				if c.JSON {
					err = printJSONLine(k.Stdout, r)
				} else {
					err = printTopLine(k.Stdout, r)
				}
				if err != nil {
					return err
				}
			}
			last = now
		}
		wait(ctx, every)
	}
}

func printTopLine(w io.Writer, r client.Run) error {
	_, err := fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%s  %s  %-15s  %s  %s", stamp(r.UpdatedAt), r.RunID, clean(r.Status), clean(r.Name), clean(r.Waiting)), " "))
	return err
}

// Messages of the view.
type (
	topRead struct {
		runs []client.Run
		more bool
		at   time.Time
		err  error
	}
	topWhy struct {
		id       events.RunID
		sentence string
	}
	topDone struct{ said string }
	topTick struct{}
)

// top is the view. It changes in Update alone.
type top struct {
	ctx    context.Context // bubbletea's commands take none
	api    topServer
	width  int
	height int

	runs   []client.Run
	more   bool // there are older ones
	at     time.Time
	lost   time.Time // since when the server does not answer; zero: it does
	why    string
	filter string
	typing bool
	cursor events.RunID // stays on its run when others come
	open   bool         // the run is shown by itself
	detail string       // why it stands where it does
	sure   bool         // a cancel is asked about
	said   string
}

var _ tea.Model = (*top)(nil)

func newTop(ctx context.Context, api topServer) *top {
	return &top{ctx: ctx, api: api, width: 80, height: 24}
}

// Init implements tea.Model.
func (t *top) Init() tea.Cmd { return t.read }

func (t *top) read() tea.Msg {
	ctx, cancel := context.WithTimeout(t.ctx, 10*time.Second)
	defer cancel()
	page, err := t.api.Runs(ctx, client.RunFilter{}, client.PageRequest{Limit: topRuns})
	return topRead{page.Items, page.NextCursor != "", time.Now(), err}
}

// Update implements tea.Model.
func (t *top) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch m := msg.(type) {
	case tea.WindowSizeMsg:
		t.width, t.height = max(m.Width, 20), max(m.Height, 6)
	case topTick:
		return t, t.read
	case topRead:
		if m.err != nil {
			if t.lost.IsZero() {
				t.lost = m.at
			}
			t.why = m.err.Error()
		} else {
			t.runs, t.more, t.at, t.lost = m.runs, m.more, m.at, time.Time{}
		}
		return t, tea.Tick(topEvery, func(time.Time) tea.Msg { return topTick{} })
	case topWhy:
		if m.id == t.cursor {
			t.detail = m.sentence
		}
	case topDone:
		t.said = m.said
		return t, t.read
	case tea.KeyPressMsg:
		return t, t.key(m.String())
	}
	return t, nil
}

func (t *top) key(key string) tea.Cmd {
	if key == "ctrl+c" {
		return tea.Quit
	}
	t.said = ""
	switch {
	case t.sure:
		t.sure = false
		if r, ok := t.chosen(); ok && key == "y" {
			return t.cancel(r.RunID)
		}
		t.said = "not cancelled"
		return nil
	case t.typing:
		switch key {
		case "enter":
			t.typing = false
		case "esc":
			t.typing, t.filter = false, ""
		case "backspace":
			if r := []rune(t.filter); len(r) > 0 {
				t.filter = string(r[:len(r)-1])
			}
		case "space":
			t.filter += " "
		default:
			if len([]rune(key)) == 1 && len(t.filter) < 100 {
				t.filter += key
			}
		}
		return nil
	}
	switch key {
	case "q":
		return tea.Quit
	case "esc", "left":
		if t.open {
			t.open = false
		} else {
			t.filter = ""
		}
	case "/":
		t.typing, t.open = true, false
	case "up", "k":
		t.move(-1)
	case "down", "j":
		t.move(1)
	case "pgup":
		t.move(-max(t.height-6, 1))
	case "pgdown":
		t.move(max(t.height-6, 1))
	case "home", "g":
		t.move(-topRuns)
	case "end", "G":
		t.move(topRuns)
	case "enter", "right":
		if r, ok := t.chosen(); ok {
			t.open, t.cursor, t.detail = true, r.RunID, ""
			return t.ask(r.RunID)
		}
	case "c":
		if r, ok := t.chosen(); ok && !events.Ended(r.Status) {
			t.sure, t.cursor = true, r.RunID
		} else if ok {
			t.said = "this run has ended"
		}
	case "r":
		return t.read
	}
	return nil
}

func (t *top) ask(id events.RunID) tea.Cmd {
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(t.ctx, 10*time.Second)
		defer cancel()
		w, err := t.api.Why(ctx, id)
		if err != nil {
			return topWhy{id, "why is not known: " + err.Error()}
		}
		return topWhy{id, w.Sentence}
	}
}

func (t *top) cancel(id events.RunID) tea.Cmd {
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(t.ctx, 10*time.Second)
		defer cancel()
		if _, err := t.api.Cancel(ctx, id, "from runs watch"); err != nil {
			return topDone{"not cancelled: " + err.Error()}
		}
		return topDone{"run " + string(id) + " was asked to stop"}
	}
}

// shown are the runs that fit the filter.
func (t *top) shown() []client.Run {
	words := strings.Fields(strings.ToLower(t.filter))
	if len(words) == 0 {
		return t.runs
	}
	var out []client.Run
	for _, r := range t.runs {
		text := strings.ToLower(strings.Join([]string{string(r.RunID), r.Name, r.Status, r.Kind, r.Waiting}, " "))
		for k, v := range r.Labels {
			text += " " + strings.ToLower(k+"="+v)
		}
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
			out = append(out, r)
		}
	}
	return out
}

func (t *top) index(rows []client.Run) int {
	return max(slices.IndexFunc(rows, func(r client.Run) bool { return r.RunID == t.cursor }), 0)
}

func (t *top) chosen() (client.Run, bool) {
	rows := t.shown()
	if len(rows) == 0 {
		return client.Run{}, false
	}
	return rows[t.index(rows)], true
}

func (t *top) move(by int) {
	rows := t.shown()
	if len(rows) == 0 {
		return
	}
	t.cursor = rows[min(max(t.index(rows)+by, 0), len(rows)-1)].RunID
	t.detail = ""
}
