package approvals

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Asked is what a message needs so that people can decide in the channel.
type Asked struct {
	Ref     string // what comes back with a click
	Choices []Choice
	More    []Choice // what decides nothing
	Text    string   // label of the text that may come with a click; empty for none
	Needed  bool     // nothing is decided without the text
}

// Choice is one button.
type Choice struct {
	Action string // what comes back
	Label  string
	Style  string // "primary", "danger" or empty
}

// maxArgs bounds the arguments that a message shows, in characters. What is longer
// is not decided there: nobody would see what they agree to.
const maxArgs = 2700

// AnswerAction and ChoiceAction are actions of a click on a question: with the text
// beside it, and with a choice's number behind.
const (
	AnswerAction = events.Answered
	ChoiceAction = "choice-"
)

// asked is the public form of a request in what a program gets.
type asked struct {
	ApprovalID events.ApprovalID `json:"approval_id"`
	Namespace  string            `json:"namespace"`
	Kind       string            `json:"kind"`
	State      string            `json:"state"`
	Summary    string            `json:"summary"`
	Preview    string            `json:"preview,omitempty"`
	RunID      events.RunID      `json:"run_id"`
	Agent      string            `json:"agent"`
	Tool       string            `json:"tool"`
	Args       json.RawMessage   `json:"args"`
	Digest     events.Digest     `json:"digest"`
	Key        string            `json:"key,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Question   *events.Question  `json:"question,omitempty"`
	ExpiresAt  time.Time         `json:"expires_at"`
	Hidden     bool              `json:"hidden,omitempty"` // what it is about is left out; see Request.toldIn
}

// TellAsked is how a request is told while it waits. Ask is nil when it cannot be
// decided in a message: its arguments are too long to show.
func TellAsked(r Request) Message {
	if r.Hidden {
		return tellHidden(r)
	}
	m := Message{
		ID: string(r.ID) + "-ask", Type: "holdfast.approval", At: r.CreatedAt, Title: Visible(r.Title(), maxTitle),
		Hint: "or: holdfast approvals show " + string(r.ID),
		Data: asked{r.ID, r.Namespace, r.Kind, r.State, r.Summary, r.Preview, r.RunID, r.Agent, r.Tool, r.Args, r.Digest, r.Key, r.Labels, r.Question, r.ExpiresAt, false},
	}
	add := func(name, value string) {
		if value != "" {
			m.Facts = append(m.Facts, Shown{name, value})
		}
	}
	whole := true
	long := func(name, value string) {
		shown := Visible(value, maxArgs)
		whole = whole && !strings.HasSuffix(shown, "…")
		add(name, shown)
	}
	if r.Question != nil {
		long("question", r.Question.Text)
	}
	if r.Kind != events.ApprovalQuestion {
		long("arguments", Indented(r.Args))
	}
	add("tool", Visible(r.Tool, 200))
	add("agent", Visible(r.Agent, 200))
	add("key", Visible(r.Key, 300))
	add("run", string(r.RunID))
	until := "expires"
	if r.Keeps() {
		until = "wanted by"
	}
	add(until, r.ExpiresAt.UTC().Format("2006-01-02 15:04 UTC"))
	m.Ask = &Asked{Choices: ChoicesOf(r), Text: "Comment", Needed: r.NeedsComment()}
	if r.Question != nil {
		m.Ask.Text = ""
		if len(r.Question.Choices) == 0 {
			m.Ask.Text = "Answer"
		}
	}
	if !whole {
		add("note", "this is cut; see the whole before you decide")
	}
	if len(r.Form()) > 0 { // it is filled in behind a link or at the API
		m.Ask.Choices = slices.DeleteFunc(m.Ask.Choices, func(c Choice) bool { return c.Action == events.Approve })
	}
	for _, f := range r.Form() {
		add("to fill in", Visible(cmp.Or(f.Title, f.Name), 200))
	}
	if !whole || len(m.Ask.Choices) > 20 {
		m.Ask = nil
	}
	return m
}

// maxPreview bounds a preview, in characters.
const maxPreview = 300

// previewOf makes a preview fit to show, in one line.
func previewOf(s string) string {
	return strings.TrimSpace(strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(Visible(s, maxPreview)))
}

// ChoicesOf lists what a person may choose about r.
func ChoicesOf(r Request) []Choice {
	switch r.Kind {
	case events.ApprovalDoubt:
		return []Choice{{events.Happened, "It happened", ""}, {events.NotHappened, "It did not happen", ""}, {events.GiveUp, "Give up", "danger"}}
	case events.ApprovalQuestion:
		var out []Choice
		for i, c := range r.Question.Choices {
			out = append(out, Choice{fmt.Sprint(ChoiceAction, i), Visible(c, 70), ""})
		}
		if out == nil {
			out = []Choice{{AnswerAction, "Answer", "primary"}}
		}
		return out
	}
	return []Choice{{events.Approve, "Approve", "primary"}, {events.Reject, "Reject", "danger"}}
}

// TellEnded is how a request is told once it has ended.
func TellEnded(r Request) Message {
	m := TellAsked(r)
	m.Ask, m.Hint = nil, ""
	m.Facts = append([]Shown{{"result", EndedText(r)}}, m.Facts...)
	if changed := ChangesText(r.Changes()); changed != "" {
		m.Facts = append(m.Facts, Shown{"changed", Visible(changed, maxShown)})
	}
	if r.Comment != "" {
		m.Facts = append(m.Facts, Shown{"comment", Visible(r.Comment, maxShown)})
	}
	return m
}

// EndedText says how r ended, in one line: by whom, when and where.
func EndedText(r Request) string {
	switch r.State {
	case StatePending:
		return "nobody has decided"
	case events.Expired:
		return "expired at " + stamp(r.DecidedAt) + ": nobody decided in time, and nothing was done"
	case events.Withdrawn:
		return "withdrawn at " + stamp(r.DecidedAt) + ": " + Visible(r.WithdrawReason, 300)
	}
	said := fmt.Sprintf("%s by %s at %s through %s", strings.ReplaceAll(r.State, "_", " "), r.DecidedBy, stamp(r.DecidedAt), r.Door)
	if r.Edit != nil {
		said += ", with other arguments"
	}
	if r.UnusedReason != "" {
		said += "; the run no longer needed it"
	}
	return said
}

// Indented lays JSON out for people; every digit stays.
func Indented(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// Visible is text of at most limit characters that looks like what it is: control
// characters and those that have no width or turn the direction of writing are
// written as \uXXXX. What is cut ends with an ellipsis.
func Visible(s string, limit int) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n++; n > limit {
			b.WriteRune('…')
			break
		}
		switch {
		case r == '\n', r == '\t':
			b.WriteRune(r)
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == '\u2028', r == '\u2029', r == unicode.ReplacementChar:
			for _, u := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, u)
			}
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
