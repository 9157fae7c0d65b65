package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/alecthomas/kong"
	"github.com/charmbracelet/x/ansi"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// fakeTop is a server with runs that the test sets.
type fakeTop struct {
	runs      []client.Run
	err       error
	cancelled []events.RunID
	reads     int
	after     func(reads int)
}

func (f *fakeTop) Runs(context.Context, client.RunFilter, client.PageRequest) (client.Page[client.Run], error) {
	f.reads++
	if f.after != nil {
		f.after(f.reads)
	}
	return client.Page[client.Run]{Items: f.runs}, f.err
}

func (f *fakeTop) Why(_ context.Context, id events.RunID) (client.Why, error) {
	return client.Why{Sentence: "Waiting for Maria since 02:14, " + string(id)}, nil
}

func (f *fakeTop) Cancel(_ context.Context, id events.RunID, _ string) (client.Commanded, error) {
	f.cancelled = append(f.cancelled, id)
	return client.Commanded{}, nil
}

func topOf(n int) []client.Run {
	var runs []client.Run
	for i := range n {
		status := events.StatusWaiting
		if i%3 == 0 {
			status = events.StatusCompleted
		}
		runs = append(runs, client.Run{RunID: events.RunID(fmt.Sprintf("0198c2aa-0000-7000-8000-%012d", i)), Name: fmt.Sprintf("agent-%d", i), Kind: "agent", Status: status,
			Waiting: "a person\x1b[31m says \u202eyes", Labels: map[string]string{"n": fmt.Sprint(i)}, AcceptedAt: time.Now().Add(-time.Hour)})
	}
	return runs
}

// press sends keys, and runs what they order.
func press(t *testing.T, m *top, keys ...string) {
	t.Helper()
	for _, key := range keys {
		k := tea.KeyPressMsg{Text: key, Code: []rune(key)[0]}
		switch key {
		case "enter":
			k = tea.KeyPressMsg{Code: tea.KeyEnter}
		case "esc":
			k = tea.KeyPressMsg{Code: tea.KeyEscape}
		case "down":
			k = tea.KeyPressMsg{Code: tea.KeyDown}
		}
		_, cmd := m.Update(k)
		if cmd != nil {
			if msg := cmd(); msg != nil {
				if _, quit := msg.(tea.QuitMsg); !quit {
					m.Update(msg)
				}
			}
		}
	}
}

func shownTop(m *top) string { return ansi.Strip(m.View().Content) }

func TestTop_FitsEveryTerminal(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{20, 6}, {38, 10}, {60, 12}, {80, 24}, {200, 50}} {
		m := newTop(t.Context(), &fakeTop{runs: topOf(40)})
		m.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		m.Update(m.read())
		for _, keys := range [][]string{nil, {"down", "down", "enter"}, {"c"}, {"esc"}, {"/", "7"}} {
			press(t, m, keys...)
			lines := strings.Split(m.View().Content, "\n")
			if len(lines) != size[1] {
				t.Errorf("%v after %v: %d lines", size, keys, len(lines))
			}
			for _, line := range lines {
				if w := lipgloss.Width(line); w > size[0] {
					t.Errorf("%v after %v: %d cells: %q", size, keys, w, line)
				}
			}
			if text := shownTop(m); strings.ContainsAny(text, "\x1b\u202e") {
				t.Errorf("what a run says steers the terminal: %q", text)
			}
		}
	}
}

func TestTop_OpensFiltersAndAsksBeforeItCancels(t *testing.T) {
	t.Parallel()
	api := &fakeTop{runs: topOf(6)}
	m := newTop(t.Context(), api)
	m.Update(tea.WindowSizeMsg{Width: 100, Height: 20})
	m.Update(m.read())
	if text := shownTop(m); !strings.Contains(text, "4 waiting · 2 completed") || !strings.Contains(text, "agent-5") {
		t.Errorf("the list:\n%s", text)
	}
	press(t, m, "down", "enter")
	if text := shownTop(m); !strings.Contains(text, "Waiting for Maria since 02:14") || !strings.Contains(text, "holdfast runs watch "+string(api.runs[1].RunID)) || strings.Contains(text, "agent-2") {
		t.Errorf("opened:\n%s", text)
	}
	// The chosen run stays chosen when others come before it.
	api.runs = append(topOf(1), api.runs...)
	api.runs[0].RunID = "0198c2aa-0000-7000-8000-999999999999"
	m.Update(m.read())
	press(t, m, "esc", "c")
	if text := shownTop(m); !strings.Contains(text, "Cancel agent-1 ") || len(api.cancelled) != 0 {
		t.Errorf("asked:\n%s", text)
	}
	press(t, m, "n")
	if len(api.cancelled) != 0 || !strings.Contains(shownTop(m), "not cancelled") {
		t.Errorf("cancelled %v without a yes", api.cancelled)
	}
	press(t, m, "c", "y")
	if len(api.cancelled) != 1 || api.cancelled[0] != "0198c2aa-0000-7000-8000-000000000001" {
		t.Errorf("cancelled %v", api.cancelled)
	}
	press(t, m, "/", "n", "=", "4", "enter")
	if text := shownTop(m); strings.Contains(text, "agent-1") || !strings.Contains(text, "agent-4") {
		t.Errorf("filtered:\n%s", text)
	}
	press(t, m, "/", "z", "z", "enter")
	if text := shownTop(m); !strings.Contains(text, "fits.") {
		t.Errorf("nothing fits:\n%s", text)
	}
	press(t, m, "esc")
	// The server goes away and comes back; what was read stays.
	api.err = errors.New("connection refused")
	m.Update(m.read())
	if text := shownTop(m); !strings.Contains(text, "no answer since") || !strings.Contains(text, "agent-4") {
		t.Errorf("away:\n%s", text)
	}
	api.err = nil
	m.Update(m.read())
	if text := shownTop(m); !strings.Contains(text, "live, ") {
		t.Errorf("back:\n%s", text)
	}
}

func TestTop_RunsAsAProgram(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	in := strings.NewReader("q")
	if _, err := tea.NewProgram(newTop(ctx, &fakeTop{runs: topOf(3)}), tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(&out), tea.WithWindowSize(60, 12), tea.WithEnvironment([]string{"TERM=xterm-256color", "NO_COLOR=1"})).Run(); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "\x1b[31m") || strings.Contains(out.String(), "\x1b[34m") {
		t.Errorf("NO_COLOR has colours: %q", out.String())
	}
}

// Elsewhere than on a terminal each change is a line, and a server that is away is said once.
func TestTop_LinesWithoutATerminal(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	api := &fakeTop{runs: topOf(2)}
	api.after = func(reads int) {
		switch reads {
		case 2:
			api.runs[0].Status = events.StatusFailed
		case 3, 4:
			api.err = fmt.Errorf("dial: %w", client.ErrUnreachable)
		case 5:
			api.err = nil
		case 6:
			cancel()
		}
	}
	var out, notes bytes.Buffer
	if err := (&RunsWatchCmd{}).lines(ctx, &kong.Context{Kong: &kong.Kong{Stdout: &out, Stderr: &notes}}, api, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 || !strings.Contains(lines[0], "agent-1") || !strings.Contains(lines[2], "failed") || strings.Contains(out.String(), "\x1b") {
		t.Errorf("lines:\n%s", out.String())
	}
	if strings.Count(notes.String(), "does not answer") != 1 || strings.Count(notes.String(), "answers again") != 1 {
		t.Errorf("notes:\n%s", notes.String())
	}
}
