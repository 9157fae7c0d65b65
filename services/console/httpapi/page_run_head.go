package httpapi

import (
	"cmp"
	"encoding/json"
	"net/url"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/console"
	"github.com/holdfast-run/holdfast/web"
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
	Defined  string // the page of that version; empty when there is none
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
		s.Before, s.Text, s.Href = "by the run", web.Short(string(r.ParentRunID)), "/ui/runs/"+string(r.ParentRunID)
		if r.ParentItem != "" {
			s.After = "for " + r.ParentItem
		}
	case t.Kind == "fork" || t.Kind == "retry":
		s.Before, s.Text = "as a "+t.Kind+" of", web.Short(t.ID)
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
		s.Before, s.Text, s.Href = "by the "+t.Kind, cmp.Or(t.Name, t.ID), triggerPath(t, r.AcceptedAt)
	}
	return s
}

// triggerPath is where a trigger is shown: a schedule's own page, or what came to a
// webhook around the run's acceptance; empty when there is no such page.
func triggerPath(t events.Trigger, accepted time.Time) string {
	if !spec.ValidName(t.Name) {
		return ""
	}
	switch t.Kind {
	case "schedule":
		return "/ui/triggers/schedules/" + t.Name
	case "webhook":
		around := func(d time.Duration) string { return accepted.UTC().Add(d).Format("2006-01-02T15:04:05") }
		return "/ui/triggers/deliveries?" + url.Values{"webhook": {t.Name}, "from": {around(-time.Minute)}, "to": {around(time.Minute)}}.Encode()
	}
	return ""
}

// versionPath is the page of the version of its agent or flow that a run executes.
func versionPath(r console.Run) string {
	if r.Digest == "" || !spec.ValidName(r.Name) || r.Kind != spec.KindAgent && r.Kind != spec.KindFlow {
		return ""
	}
	return definitionsPath + "/" + r.Kind + "/" + r.Name + "?" + url.Values{"version": {string(r.Digest)}}.Encode()
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
	h := runHead{Sentence: why.Sentence, Started: starter(r), Deadline: r.Deadline, Notice: noticeOf(done), Cost: costOf(r), Version: r.Digest.Short(), Defined: versionPath(r)}
	for _, w := range s.Pending {
		if w.Kind == "doubt" {
			h.Doubts++
		}
	}
	until := s.Now
	if !r.EndedAt.IsZero() {
		until = r.EndedAt
	}
	h.Took = web.Span(until.Sub(r.AcceptedAt))
	if newer != "" {
		h.Newer = newer.Short()
	}
	h.Buttons = a.buttons(p.Role, offers{Run: r, waits: s.Waits(), current: newer}, key)
	return h
}
