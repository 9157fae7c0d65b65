package main

import (
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// liveText prints what a model writes, as it comes. Its notes say what of it
// does not count.
type liveText struct {
	w, notes io.Writer
	onlyText bool // no thinking, no arguments of calls

	last client.Delta
	open bool // the line that is printed has no end yet
}

func (l *liveText) print(d client.Delta) {
	if l.onlyText && d.Kind != events.DeltaText && d.Kind != events.DeltaReset {
		return
	}
	same := d.Epoch == l.last.Epoch && d.Turn == l.last.Turn
	switch {
	case d.Kind == events.DeltaReset:
		l.end()
		fmt.Fprintln(l.notes, "(the answer broke off; the model is asked again)")
		l.last = d
		return
	case !same || d.Kind != l.last.Kind || d.Index != l.last.Index:
		l.end()
		switch d.Kind {
		case events.DeltaThinking:
			l.write("thinking: ")
		case events.DeltaToolCall:
			l.write("calls " + clean(d.Tool) + ": ")
		}
	case !l.onlyText && d.N > l.last.N+1:
		l.write(" ... ") // some pieces were lost
	}
	l.write(cleanLines(d.Text))
	l.last = d
}

func (l *liveText) write(text string) {
	if text == "" {
		return
	}
	fmt.Fprint(l.w, text)
	l.open = !strings.HasSuffix(text, "\n")
}

// end begins a new line when there is one to end.
func (l *liveText) end() {
	if l.open {
		fmt.Fprintln(l.w)
		l.open = false
	}
}

// cleanLines is clean for a text of several lines.
func cleanLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = clean(line)
	}
	return strings.Join(lines, "\n")
}

// deltaLine is what --json prints of a piece of an answer.
type deltaLine struct {
	Delta *client.Delta `json:"delta"`
}

// onlyEvents are the frames of a watch that is not live.
func onlyEvents(all iter.Seq2[client.Event, error]) iter.Seq2[client.Frame, error] {
	return func(yield func(client.Frame, error) bool) {
		for e, err := range all {
			if !yield(client.Frame{Event: &e}, err) {
				return
			}
		}
	}
}

func printFrameJSON(w io.Writer, f client.Frame) error {
	if f.Delta != nil {
		return printJSONLine(w, deltaLine{f.Delta})
	}
	return printJSONLine(w, f.Event)
}
