package httpapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

// runHead is what stands above everything else about a run.
type runHead struct {
	Sentence string
	Doubts   int // calls of which nobody knows whether they happened
	Buttons  []runButton
	Started  startedBy
	Took     string // from its acceptance to its end, or to now
	Cost     string
	Version  string // the beginning of its digest
	Newer    string // of what its agent's name means now, when that is another version
	Deadline time.Time
	Notice   string
}

// runButton is one order that the run could carry out now and the reader may give.
type runButton struct {
	Name, Text, Symbol, Style string
	Asks                      bool // it leads to a page that asks
	Key                       string
}

var buttonLooks = map[string]runButton{
	"pause":   {Text: "Pause", Symbol: "s-pause"},
	"resume":  {Text: "Resume", Symbol: "s-run", Style: "go"},
	"retry":   {Text: "Retry from the last good row", Style: "go"},
	"message": {Text: "Say something"},
	"signal":  {Text: "Send the signal", Style: "go"},
	"budget":  {Text: "Raise a budget"},
	"migrate": {Text: "Move to the current version"},
	"fork":    {Text: "Fork from a row"},
	"cancel":  {Text: "Cancel the run", Symbol: "s-stop", Style: "stop"},
}

func (a *api) buttons(role authn.Role, o offers, key string) (out []runButton) {
	for _, order := range runOrders() {
		if !role.Allows(order.role) || !order.can(o) {
			continue
		}
		b := buttonLooks[order.name]
		b.Name, b.Asks, b.Key = order.name, order.ask != nil || order.do == nil, key
		out = append(out, b)
	}
	return out
}

// startedBy says who or what started a run.
type startedBy struct{ Before, Text, Href, After string }

func starter(r console.Run) (s startedBy) {
	var t events.Trigger
	if len(r.Trigger) > 0 && json.Unmarshal(r.Trigger, &t) != nil {
		return startedBy{Text: "nobody knows: its row cannot be read"}
	}
	if r.Principal != "" && r.Principal != t.Kind+":"+t.Name {
		s.After = "for " + r.Principal
	}
	switch {
	case r.ParentRunID != "":
		s.Before, s.Text, s.Href = "by the run", short(string(r.ParentRunID)), "/ui/runs/"+string(r.ParentRunID)
		if r.ParentItem != "" {
			s.After = "for " + r.ParentItem
		}
	case t.Kind == "fork" || t.Kind == "retry":
		s.Before, s.Text = "as a "+t.Kind+" of", short(t.ID)
		if events.RunID(t.ID).Valid() {
			s.Href = "/ui/runs/" + t.ID
		}
	case r.Kind == console.KindProgram:
		s.Before = "by its own program"
	case t.Kind == "api" || t.Kind == "":
		s.Before = "through the API"
	case t.Kind == "event":
		s.Before, s.Text = "by a message to", cmp.Or(t.Name, t.ID)
	default:
		s.Before, s.Text = "by the "+t.Kind, cmp.Or(t.Name, t.ID)
	}
	return s
}

// short is the end of an id: the beginning is time and looks alike.
func short(id string) string { return id[max(0, len(id)-8):] }

// took is a duration for people, with spaces that do not break.
func took(d time.Duration) string {
	const nbsp = "\u00a0"
	d = max(d, 0)
	switch {
	case d < time.Millisecond:
		return "0" + nbsp + "s"
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%d%sms", d/time.Millisecond, nbsp)
	case d < 10*time.Second:
		return fmt.Sprintf("%d.%d%ss", d/time.Second, d%time.Second/(100*time.Millisecond), nbsp)
	case d < time.Minute:
		return fmt.Sprintf("%d%ss", d/time.Second, nbsp)
	case d < time.Hour:
		return fmt.Sprintf("%d%smin %d%ss", d/time.Minute, nbsp, d%time.Minute/time.Second, nbsp)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d%sh %d%smin", d/time.Hour, nbsp, d%time.Hour/time.Minute, nbsp)
	}
	return fmt.Sprintf("%d%sd %d%sh", d/(24*time.Hour), nbsp, d%(24*time.Hour)/time.Hour, nbsp)
}

// noticeOf says what came of an order, on the page that follows it.
func noticeOf(done string) string {
	for _, o := range runOrders() {
		if done != "" && o.name == done {
			return o.done
		}
	}
	return ""
}

// headOf is the head of a run's page as of now, by the database's clock.
func (a *api) headOf(p authn.Principal, s console.Situation, why console.Reason, done, key string, newer events.Digest) runHead {
	r := s.Run
	h := runHead{Sentence: why.Sentence, Started: starter(r), Deadline: r.Deadline, Notice: noticeOf(done), Cost: costOf(r), Version: digestStart(r.Digest)}
	for _, w := range s.Pending {
		if w.Kind == "doubt" {
			h.Doubts++
		}
	}
	until := s.Now
	if !r.EndedAt.IsZero() {
		until = r.EndedAt
	}
	h.Took = took(until.Sub(r.AcceptedAt))
	if newer != "" {
		h.Newer = digestStart(newer)
	}
	h.Buttons = a.buttons(p.Role, offers{Run: r, waits: s.Waits(), current: newer}, key)
	return h
}

// digestStart is as much of a digest as people compare.
func digestStart(d events.Digest) string { return string(d[:min(len(d), len("sha256:")+12)]) }
