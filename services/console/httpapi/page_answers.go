package httpapi

import (
	"net/url"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
	"github.com/holdfast-run/holdfast/web"
)

// answer is one of the five that a list of runs begins with. Every number leads to the
// list behind it.
type answer struct {
	Title, Class, Symbol string
	Big                  string
	Parts                []part
	Expires              time.Time
}

// part is a number with its words; Path is empty when there is no list of it.
type part struct{ Text, Path string }

func fiveAnswers(a console.Answers) []answer {
	list := func(statuses ...string) string { return listPath(url.Values{"status": statuses}) }
	running, queued := a.Open[events.StatusRunning], a.Open[events.StatusQueued]
	parked, paused, waiting, stopping := a.Open[events.StatusAttention], a.Open[events.StatusPaused], a.Open[events.StatusWaiting], a.Open[events.StatusCancelling]

	runs := answer{Title: "Running", Class: "c-run", Symbol: "s-run", Big: web.Thousands(running)}
	runs.add(a.Asking, "ask a model", list(events.StatusRunning))
	runs.add(queued, "queued", list(events.StatusQueued))
	runs.add(waiting, "waiting", list(events.StatusWaiting))
	runs.add(stopping, "stopping", list(events.StatusCancelling))
	runs.orElse("Nothing is open.")

	stuck := answer{Title: "Stuck", Class: "c-bad", Symbol: "s-need", Big: web.Thousands(a.Stuck())}
	stuck.add(parked, "parked", list(events.StatusAttention))
	stuck.add(paused, "paused", list(events.StatusPaused))
	stuck.orElse("Nothing is stuck.")

	people := answer{Title: "Waits for a person", Class: "c-you", Symbol: "s-you", Big: web.Thousands(a.Approvals), Expires: a.NextExpiry}
	people.add(a.Approvals, "to decide", "/ui/approvals")
	people.orElse("Nobody is waited for.")

	changed := answer{Title: "Changed since 00:00 UTC", Class: "c-ok", Symbol: "s-ok", Big: web.Thousands(a.Effects["succeeded"])}
	changed.add(a.Effects["intent"], "under way", "/ui/effects?state=intent")
	changed.add(a.Effects["failed"], "failed", "/ui/effects?state=failed")
	changed.add(a.Doubts, "in doubt, of any day", "/ui/effects?state=unknown")
	changed.orElse("Nothing is in doubt.")

	cost := answer{Title: "Cost since 00:00 UTC", Symbol: "s-queue", Big: dollars(a.Cost)}
	accepted := "runs accepted since"
	if a.Runs == 1 {
		accepted = "run accepted since"
	}
	cost.add(a.Runs, accepted, listPath(url.Values{"from": {a.Since.Format(time.DateOnly)}}))
	cost.orElse("No run was accepted since.")
	return []answer{runs, stuck, people, changed, cost}
}

func (a *answer) add(n int, words, path string) {
	if n > 0 {
		a.Parts = append(a.Parts, part{web.Thousands(n) + " " + words, path})
	}
}

func (a *answer) orElse(sentence string) {
	if len(a.Parts) == 0 {
		a.Parts = []part{{Text: sentence}}
	}
}
