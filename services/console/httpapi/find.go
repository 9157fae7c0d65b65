package httpapi

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/console"
)

// FindRuns is what a list of runs is narrowed by, as people and programs type it. It is
// exported because huma looks into exported embedded structs only.
type FindRuns struct {
	Agent   string       `query:"agent" maxLength:"120" doc:"name of an agent"`
	Flow    string       `query:"flow" maxLength:"120" doc:"name of a flow"`
	Program string       `query:"program" maxLength:"120" doc:"name of a program whose own runs these are"`
	Status  []string     `query:"status,explode" maxItems:"16" doc:"queued, running, waiting, paused, needs_attention, cancelling, completed, failed, cancelled or expired; repeat it, any may match"`
	Trigger string       `query:"trigger" maxLength:"40" doc:"what started it: webhook, api, schedule, event, child or fork"`
	Source  string       `query:"source" maxLength:"120" doc:"and its name, beside trigger: of the webhook, the schedule, the stream; of the flow or agent that started a child"`
	Label   []string     `query:"label,explode" maxItems:"16" doc:"key:value; repeat it, all must match"`
	From    string       `query:"from" maxLength:"60" doc:"accepted then or later: a moment like 2026-03-05T02:00:00Z, a day like 2026-03-05, or how long ago, like 90m or 2d; UTC unless it says otherwise"`
	To      string       `query:"to" maxLength:"60" doc:"accepted before then; like from"`
	Cost    string       `query:"cost" maxLength:"40" doc:"cost at least so many dollars, like 0.10"`
	Text    string       `query:"text" maxLength:"200" doc:"eight or more characters of the beginning of an id, its last eight, or words that all stand in the name, the labels or what the run waits for"`
	Parent  events.RunID `query:"parent" maxLength:"36" doc:"children of this run"`
}

// wrongFilter is what is the matter with a field, in words for whoever typed it.
type wrongFilter struct{ field, why string }

// filter reads what was typed. All fields that are wrong are told at once.
func (in *FindRuns) filter(namespace string, now time.Time) (console.RunFilter, error) {
	f := console.RunFilter{Namespace: namespace, Parent: in.Parent}
	var wrong []wrongFilter
	say := func(field, format string, args ...any) {
		wrong = append(wrong, wrongFilter{field, fmt.Sprintf(format, args...)})
	}
	for _, kind := range []struct{ field, kind, name string }{
		{"agent", events.KindAgent, in.Agent}, {"flow", events.KindFlow, in.Flow}, {"program", console.KindProgram, in.Program},
	} {
		switch {
		case kind.name == "":
		case f.Kind != "":
			say(kind.field, "a run is of an agent, a flow or a program: give one of them")
		default:
			f.Kind, f.Name = kind.kind, kind.name
		}
	}
	for _, status := range in.Status {
		switch {
		case status == "" || slices.Contains(f.Statuses, status):
		case !slices.Contains(statuses, status):
			say("status", "%.40q is no status: use %s", status, strings.Join(statuses, ", "))
		default:
			f.Statuses = append(f.Statuses, status)
		}
	}
	if f.TriggerKind, f.TriggerName = in.Trigger, in.Source; in.Source != "" && in.Trigger == "" {
		say("source", "say beside the name what it is of: webhook, api, schedule, event or child")
	}
	for _, l := range in.Label {
		if l == "" {
			continue
		}
		key, value, ok := strings.Cut(l, ":")
		if !ok || key == "" {
			say("label", "a label is key:value, like customer:42")
			continue
		}
		if f.Labels == nil {
			f.Labels = map[string]string{}
		}
		f.Labels[key] = value
	}
	for _, moment := range []struct {
		field, text string
		to          *time.Time
	}{{"from", in.From, &f.From}, {"to", in.To, &f.To}} {
		var ok bool
		if *moment.to, ok = when(moment.text, now); !ok {
			say(moment.field, "use a moment like 2026-03-05 02:00, a day like 2026-03-05, or how long ago, like 90m or 2d; UTC")
		}
	}
	if !f.From.IsZero() && !f.To.IsZero() && !f.From.Before(f.To) {
		say("to", "it is not after the beginning, %s", f.From.Format(time.DateTime))
	}
	if in.Cost != "" {
		cost, ok := spec.ParseMicroUSD(strings.TrimPrefix(in.Cost, "$"))
		if !ok {
			say("cost", "use an amount in dollars like 0.10, with at most six digits behind the point")
		}
		f.MinCost = int64(cost)
	}
	if in.Parent != "" && !in.Parent.Valid() {
		say("parent", "it is not the id of a run")
	}
	if len(strings.Fields(in.Text)) > maxWords {
		say("text", "at most %d words are looked for", maxWords)
	}
	for _, text := range []struct{ field, text string }{{"text", in.Text}, {"agent", in.Agent}, {"flow", in.Flow}, {"program", in.Program}, {"trigger", in.Trigger}, {"source", in.Source}, {"label", strings.Join(in.Label, "")}} {
		if !utf8.ValidString(text.text) || strings.ContainsRune(text.text, 0) || len(text.text) > 4000 {
			say(text.field, "use text without NUL")
		}
	}
	return f, wrongFilters(wrong)
}

// maxWords is how many words a text may have.
const maxWords = 8

// wrongFilters is the problem of all of them.
func wrongFilters(wrong []wrongFilter) error {
	if len(wrong) == 0 {
		return nil
	}
	p := door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, wrong[0].field+": "+wrong[0].why)
	for _, w := range wrong {
		p.At("query."+w.field, w.why)
	}
	return p
}

var ago = regexp.MustCompile(`^(\d{1,6})([mhd])$`)

// when reads a moment: empty is none.
func when(text string, now time.Time) (time.Time, bool) {
	text = strings.TrimSpace(text)
	if text == "" {
		return time.Time{}, true
	}
	if m := ago.FindStringSubmatch(text); m != nil {
		n, err := strconv.Atoi(m[1])
		unit := map[string]time.Duration{"m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}[m[2]]
		if err != nil || n > int(100*365*24*time.Hour/unit) {
			return time.Time{}, false
		}
		return now.Add(-time.Duration(n) * unit).UTC(), true
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02T15:04:05", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil && t.Year() >= 1970 && t.Year() < 10_000 {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}
