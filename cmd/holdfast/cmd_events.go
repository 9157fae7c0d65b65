package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// EventsCmd follows the events of a namespace.
type EventsCmd struct {
	Remote
	Output
	Follow bool   `default:"true" env:"-" help:"Go on until interrupted. This is what the command does."`
	After  string `env:"-" placeholder:"ID" help:"Begin after the event with this id, as --json prints it. Default: now."`
	Kind   string `env:"-" placeholder:"KIND" help:"Only rows of this kind, run_failed say, or messages of this type."`
	OfRun  string `env:"-" name:"run" placeholder:"ID" help:"Only events of this run."`
	Text   string `env:"-" placeholder:"WORDS" help:"Only events with these words in them, large letters or small."`
	Count  int    `env:"-" placeholder:"N" help:"End after N events."`
}

// Help implements kong.HelpProvider.
func (*EventsCmd) Help() string {
	return `Shows every event of the namespace as it happens, at least once each, and
reconnects by itself. For one run from its beginning use "holdfast runs watch".

  holdfast events --follow
  holdfast events --json | jq 'select(.event.data.kind == "run_failed")'
  holdfast events --kind run_failed --text timeout
  holdfast events --after 20261129T020000Z-1841

--json prints one line per event: {"id", "type", "event"}, event being a
CloudEvent in JSON. The type "resync" says that older events are gone.
` + exitHelp
}

// streamLine is what --json prints.
type streamLine struct {
	ID    string          `json:"id"`
	Type  string          `json:"type,omitempty"` // resync; absent for an event
	Event json.RawMessage `json:"event"`
}

// Run implements the command.
func (c *EventsCmd) Run(ctx context.Context, k *kong.Context) error {
	if c.Count < 0 {
		return usage(fmt.Errorf("--count is %d, want at least 1", c.Count))
	}
	api, err := c.client()
	if err != nil {
		return err
	}
	n := 0
	for e, err := range api.Events(ctx, c.After) {
		if err != nil {
			return advise(err, "")
		}
		if e.Event == "" && !c.wants(e.Data) {
			continue
		}
		if c.JSON {
			if err := printJSONLine(k.Stdout, streamLine{ID: e.ID, Type: e.Event, Event: e.Data}); err != nil {
				return err
			}
		} else {
			printStreamEvent(k.Stdout, e)
		}
		if n++; n == c.Count {
			return nil
		}
	}
	return nil
}

// wants says whether an event is one of those that were asked for.
func (c *EventsCmd) wants(data json.RawMessage) bool {
	var ce struct {
		Type    string          `json:"type"`
		Subject string          `json:"subject"`
		Data    json.RawMessage `json:"data"`
	}
	if c.Kind == "" && c.OfRun == "" && c.Text == "" {
		return true
	}
	if json.Unmarshal(data, &ce) != nil {
		return false
	}
	kind := ce.Type
	var run events.RunEvent
	if ce.Type == events.TypeRunEvent && json.Unmarshal(ce.Data, &run) == nil {
		kind = run.Kind
	}
	return (c.Kind == "" || c.Kind == kind) && (c.OfRun == "" || c.OfRun == ce.Subject) &&
		(c.Text == "" || strings.Contains(strings.ToLower(string(ce.Data)), strings.ToLower(c.Text)))
}

func printStreamEvent(w io.Writer, e client.StreamEvent) {
	if e.Event == "resync" {
		fmt.Fprintln(w, "(older events are gone; lists show the present state)")
		return
	}
	var ce struct {
		Type    string          `json:"type"`
		Subject string          `json:"subject"`
		Time    time.Time       `json:"time"`
		Data    json.RawMessage `json:"data"`
	}
	if json.Unmarshal(e.Data, &ce) != nil {
		fmt.Fprintln(w, clean(string(e.Data)))
		return
	}
	var run events.RunEvent
	if ce.Type == events.TypeRunEvent && json.Unmarshal(ce.Data, &run) == nil {
		fmt.Fprintf(w, "%s  %s  %4d  %-17s  %-15s  %s\n", run.At.UTC().Format(time.TimeOnly), clean(string(run.RunID)), run.Seq, clean(run.Kind), clean(run.Status), clean(short(run.Data, 80)))
		return
	}
	fmt.Fprintf(w, "%s  %s  %s  %s\n", ce.Time.UTC().Format(time.TimeOnly), clean(ce.Type), clean(ce.Subject), clean(short(ce.Data, 100)))
}
