package console

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Situation is everything that explains what a run does or waits for.
type Situation struct {
	Run       Run
	Pending   []Pending
	Approvals []Approval  // open ones of this run
	Held      []Held      // calls of this run that a stop holds
	Places    []PlaceWait // under concurrency keys, of a queued run
	Delayed   []Delayed   // calls of this run that nobody works on now
	Workers   []Worker    // of runner and tools
	Now       time.Time   // by the database's clock
}

// Stop is an order of an operator that no write of its scope leaves.
type Stop struct {
	ID    string
	Scope string // all, agent or tool
	Name  string
	By    string
	Note  string
	Since time.Time
}

// Held is a call that waits because of a stop.
type Held struct {
	CallID events.CallID
	Stop   string // its id
	By     string
	Note   string
	Since  time.Time
}

// Delayed is a call that waits for its turn, or for its next attempt.
type Delayed struct {
	CallID   events.CallID
	Limit    string // whose turn; empty for the next attempt
	Attempts int    // so far
	Error    string // of the last one
	NextAt   time.Time
}

// String says what it waits for.
func (d Delayed) String() string {
	if d.Limit != "" {
		return fmt.Sprintf("for its turn under %s, next at %s", d.Limit, at(d.NextAt))
	}
	if d.Attempts == 0 {
		return fmt.Sprintf("not tried yet, next at %s: %s", at(d.NextAt), d.Error)
	}
	return fmt.Sprintf("tried %d times, again at %s: %s", d.Attempts, at(d.NextAt), d.Error)
}

// String says whose stop it is, since when and why.
func (h Held) String() string {
	return fmt.Sprintf("held by the stop of %s since %s: %s", h.By, at(h.Since), h.Note)
}

// Reason is the answer to "what does this run wait for?".
type Reason struct {
	Sentence string
	Since    time.Time // zero when nothing is waited for
	Waits    []Wait
}

// Wait is one thing that must happen before the run goes on.
type Wait struct {
	Kind   string // queue, model, tool, approval, doubt, question, signal, timer, child
	ID     string // approval id, child run id; empty for the rest
	Name   string // tool or signal
	Since  time.Time
	Until  time.Time // when it expires by itself; zero for never
	Phrase string
}

// Why says in one sentence what the run does or waits for, who can end the wait
// and since when. It is pure.
func Why(s Situation) Reason {
	out := why(s)
	if until := s.Run.Deadline; !until.IsZero() && !events.Ended(s.Run.Status) {
		out.Sentence += ", until its deadline " + at(until)
	}
	return out
}

func why(s Situation) Reason {
	r := s.Run
	switch {
	case events.Ended(r.Status):
		return Reason{Sentence: ended(r)}
	case r.Kind == KindProgram:
		return Reason{Sentence: "its own program drives it, which was last heard of at " + at(r.UpdatedAt), Since: r.UpdatedAt}
	case !r.Taken():
		return queued(s)
	case r.Status == events.StatusAttention:
		return Reason{Sentence: "parked, needs attention: " + orElse(r.Waiting, problemOf(r.Error)), Since: r.UpdatedAt}
	case r.Status == events.StatusPaused:
		return Reason{Sentence: fmt.Sprintf("%s, since %s", orElse(r.Waiting, "paused"), at(r.UpdatedAt)), Since: r.UpdatedAt}
	}
	waits := s.waits()
	out := Reason{Waits: waits}
	if len(waits) == 0 {
		if r.Waiting != "" {
			out.Sentence, out.Since = fmt.Sprintf("waiting for %s, since %s", r.Waiting, at(r.UpdatedAt)), r.UpdatedAt
			return out
		}
		out.Sentence, out.Since = fmt.Sprintf("%s since %s", r.Status, at(r.UpdatedAt)), r.UpdatedAt
		return out
	}
	out.Since = waits[0].Since
	phrases := make([]string, 0, 4)
	for i, w := range waits {
		if i == 3 {
			phrases = append(phrases, fmt.Sprintf("%d more", len(waits)-i))
			break
		}
		phrases = append(phrases, w.Phrase)
	}
	out.Sentence = strings.Join(phrases, "; and ")
	if r.Status == events.StatusCancelling {
		out.Sentence = "stopping: " + out.Sentence
	}
	return out
}

func ended(r Run) string {
	s := fmt.Sprintf("%s at %s", r.Status, at(r.EndedAt))
	if p := problemOf(r.Error); p != "" {
		s += ": " + p
	}
	return s
}

func queued(s Situation) Reason {
	since := s.Run.AcceptedAt
	w := Wait{Kind: "queue", Since: since, Phrase: fmt.Sprintf("queued: no runner has taken it for %s", span(s.Now.Sub(since)))}
	switch {
	case !s.alive("runner"):
		w.Phrase += "; no runner is alive"
	case !s.Run.Announced:
		w.Phrase += "; it has not reached the event bus yet"
	}
	return Reason{Sentence: w.Phrase, Since: since, Waits: []Wait{w}}
}

func (s Situation) alive(service string) bool {
	return slices.ContainsFunc(s.Workers, func(w Worker) bool { return w.Service == service && w.Alive() })
}

// queue says why no worker has a tool's call.
func (s Situation) queue(p Pending) string {
	serves := func(w Worker) bool {
		return w.Service == "tools" && w.Alive() && (w.Pools == nil || slices.Contains(w.Pools, p.ToolPool))
	}
	switch {
	case !s.alive("tools"):
		return ", no tools worker is alive"
	case p.ToolPool != "" && !slices.ContainsFunc(s.Workers, serves):
		return ", no worker for pool " + p.ToolPool
	case !p.Taken && p.Behind > 0:
		return fmt.Sprintf(", queued behind %s in pool %s", behind(p.Behind), p.ToolPool)
	}
	return ""
}

func behind(n int) string {
	if n >= MaxBehind {
		return fmt.Sprintf("%d or more", n)
	}
	return fmt.Sprint(n)
}

// Waits is everything that the run waits for, also while it stands still.
func (s Situation) Waits() []Wait { return s.waits() }

// waits orders what is pending: people first, because nothing else ends it,
// then tools, children and the model; the oldest first within each.
func (s Situation) waits() []Wait {
	var out []Wait
	children := 0
	var childSince time.Time
	for _, p := range s.Pending {
		switch p.Kind {
		case "approval", "doubt", "question":
			out = append(out, s.person(p))
		case "tool":
			w := Wait{Kind: p.Kind, Name: p.Detail, Since: p.Since,
				Phrase: fmt.Sprintf("waiting for tool %s since %s", p.Detail, at(p.Since))}
			if p.Probed {
				w.Phrase += fmt.Sprintf(": looking whether it happened, next at %s", at(p.NextLook))
			}
			if !p.Awaited.IsZero() {
				w.Until = p.Awaited
				w.Phrase += ": waiting for callback until " + at(p.Awaited)
			} else if h, ok := s.held(p); ok {
				w.Phrase += ", " + h.String()
			} else if d, ok := s.delayed(p); ok {
				w.Phrase += ", " + d.String()
			} else {
				w.Phrase += s.queue(p)
			}
			out = append(out, w)
		case "child":
			children += max(p.Count, 1)
			if childSince.IsZero() || p.Since.Before(childSince) {
				childSince = p.Since
			}
		case "signal":
			out = append(out, signalled(p))
		case "timer":
			out = append(out, asleep(p))
		case "slots":
			out = append(out, s.place(p)...)
		case "started": // a child run that it does not wait for
		case "model":
			out = append(out, s.model(p))
		default: // of a runner newer than this console
			out = append(out, Wait{Kind: p.Kind, Name: p.Detail, Since: p.Since,
				Phrase: fmt.Sprintf("waiting for %s %s since %s", p.Kind, p.Detail, at(p.Since))})
		}
	}
	if children > 0 {
		noun := "child runs"
		if children == 1 {
			noun = "child run"
		}
		out = append(out, Wait{Kind: "child", Since: childSince,
			Phrase: fmt.Sprintf("waiting for %d %s since %s", children, noun, at(childSince))})
	}
	slices.SortStableFunc(out, func(a, b Wait) int {
		if d := rank(a.Kind) - rank(b.Kind); d != 0 {
			return d
		}
		return a.Since.Compare(b.Since)
	})
	return out
}

func (s Situation) held(p Pending) (Held, bool) {
	for _, h := range s.Held {
		if p.Item == "call/"+string(h.CallID) {
			return h, true
		}
	}
	return Held{}, false
}

func (s Situation) delayed(p Pending) (Delayed, bool) {
	for _, d := range s.Delayed {
		if p.Item == "call/"+string(d.CallID) {
			return d, true
		}
	}
	return Delayed{}, false
}

func rank(kind string) int {
	switch kind {
	case "approval":
		return 0
	case "doubt", "question":
		return 1
	case "signal":
		return 2
	case "tool":
		return 3
	case "child":
		return 4
	case "timer":
		return 5
	}
	return 6
}

// signalled reads a wait for a signal from its row's detail.
func signalled(p Pending) Wait {
	var d struct {
		Name  string
		Key   string
		Until time.Time
	}
	if json.Unmarshal([]byte(p.Detail), &d) != nil {
		d.Name = p.Detail
	}
	w := Wait{Kind: p.Kind, Name: d.Name, Since: p.Since, Until: d.Until, Phrase: "waiting for signal " + d.Name}
	if d.Key != "" {
		w.Phrase += fmt.Sprintf(", key %q", d.Key)
	}
	w.Phrase += ", since " + at(p.Since)
	if !d.Until.IsZero() {
		w.Phrase += ", until " + at(d.Until)
	}
	return w
}

// asleep reads when a sleeping call wakes from its row's detail.
func asleep(p Pending) Wait {
	w := Wait{Kind: p.Kind, Since: p.Since}
	if until, err := time.Parse(time.RFC3339Nano, p.Detail); err == nil {
		w.Until = until
	}
	w.Phrase = fmt.Sprintf("sleeping since %s, until %s", at(p.Since), at(w.Until))
	return w
}

func (s Situation) person(p Pending) Wait {
	_, id, _ := strings.Cut(p.Item, "/")
	w := Wait{Kind: p.Kind, ID: id, Name: p.Detail, Since: p.Since}
	for _, a := range s.Approvals {
		if string(a.ID) == id {
			w.Since, w.Until = a.CreatedAt, a.ExpiresAt
		}
	}
	w.Phrase = fmt.Sprintf("waiting for a person to approve %s since %s", p.Detail, at(w.Since))
	if p.Kind == "doubt" {
		w.Phrase = fmt.Sprintf("waiting for a person to say whether %s happened since %s", p.Detail, at(w.Since))
	}
	if p.Kind == "question" {
		w.Phrase = fmt.Sprintf("waiting for a person's answer to %s since %s", p.Detail, at(w.Since))
	}
	switch {
	case w.Until.IsZero():
	case w.Until.Before(s.Now):
		w.Phrase += ", overdue since " + at(w.Until)
	default:
		w.Phrase += ", expires " + at(w.Until)
	}
	return w
}

func (s Situation) model(p Pending) Wait {
	w := Wait{Kind: "model", Since: p.Since}
	switch {
	case s.Run.ClaimWorker != "":
		w.Phrase = fmt.Sprintf("asking the model since %s (worker %s)", at(s.Run.ClaimAt), s.Run.ClaimWorker)
		if !s.Run.ClaimAt.IsZero() {
			w.Since = s.Run.ClaimAt
		}
	case p.Pool != "":
		w.Name = p.Pool
		w.Phrase = fmt.Sprintf("waiting since %s for room in the budget %s, which the calls of other runs have booked", at(p.Since), p.Pool)
	default:
		w.Phrase = fmt.Sprintf("queued: no runner has taken its model call for %s", span(s.Now.Sub(p.Since)))
		if !s.alive("runner") {
			w.Phrase += "; no runner is alive"
		} else if p.Behind > 0 {
			w.Phrase += ", queued behind " + behind(p.Behind)
		}
	}
	return w
}

func problemOf(raw json.RawMessage) string {
	var p events.Problem
	if len(raw) == 0 || json.Unmarshal(raw, &p) != nil {
		return ""
	}
	return orElse(p.Message, p.Code)
}

func orElse(s, other string) string {
	if s != "" {
		return s
	}
	return other
}

func at(t time.Time) string {
	if t.IsZero() {
		return "an unknown time"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// span is a duration for people: seconds under a minute, then minutes, hours.
func span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}
