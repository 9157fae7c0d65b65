package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// SaidBytes is how large a row may be that is read whole; of a larger one come its short
// members and the beginnings of its texts.
const SaidBytes = 32 << 10

// SaidReader reads what was said in a run.
type SaidReader interface {
	// Said is Journal for people. A row of more than SaidBytes has a part of its members,
	// with its size as Elided.
	Said(ctx context.Context, namespace string, run events.RunID, after int64, limit int) ([]events.RunEvent, error)
}

// Who says an entry of a chat.
const (
	ChatAgent  = "agent"
	ChatPerson = "person"
	ChatTool   = "tool"
	ChatNote   = "note" // what the model reads from Holdfast, and what happened to the talk
)

// ChatEntry is something that was said in a run.
type ChatEntry struct {
	Seq      int64
	At       time.Time
	Who      string
	Name     string // of the model or the person
	Text     string
	Cut      bool   // the row says more
	Thinking string // what the model thought before, as far as the provider tells
	Calls    []*ChatCall
}

// ChatCall is a call that the model asked for, with what came of it.
type ChatCall struct {
	ID         events.CallID
	Tool       string
	Args       string
	Brief      string // the arguments on one line, or their beginning
	State      string // succeeded, failed, unknown, ... or asked, open, refused
	Note       string
	Result     string
	ResultSeq  int64 // its row
	ApprovalID string
	Child      events.RunID
	Cut        bool // of Args or Result there is more
	Edited     bool // a person changed the arguments
}

const (
	chatText   = 4000 // characters
	chatArgs   = 1500
	chatResult = 2000
)

// saidData is what rows say in words.
type saidData struct {
	rowData
	Raw       string           `json:"raw"`
	Text      string           `json:"text"`
	Summary   string           `json:"summary"`
	Message   string           `json:"message"`
	Left      string           `json:"left"`
	Told      string           `json:"told"`
	Principal string           `json:"principal"`
	Reason    string           `json:"reason"`
	ID        string           `json:"id"`
	SignalID  string           `json:"signal_id"`
	From      json.RawMessage  `json:"from"`
	UpTo      int64            `json:"up_to"`
	Problems  []string         `json:"problems"`
	Question  *events.Question `json:"question"`
	Result    json.RawMessage  `json:"result"`
	Output    json.RawMessage  `json:"output"`
	Shown     json.RawMessage  `json:"shown"`
	Data      json.RawMessage  `json:"data"`
	Args      json.RawMessage  `json:"args"`
	Calls     []saidCall       `json:"calls"`
	Edits     struct {
		Message string `json:"message"`
		Prompt  string `json:"prompt"`
	} `json:"edits"`
}

type saidCall struct {
	askedRow
	Args json.RawMessage `json:"args"`
}

// ChatOf reads rows that follow each other as a conversation. It is pure. A result whose
// call was asked before the rows stands alone.
func ChatOf(rows []events.RunEvent) []ChatEntry {
	c := chat{calls: map[string]*ChatCall{}, signals: map[string]json.RawMessage{}, children: map[string]*ChatCall{}}
	for _, r := range rows {
		c.row(r)
	}
	return c.out
}

type chat struct {
	out      []ChatEntry
	calls    map[string]*ChatCall
	children map[string]*ChatCall
	signals  map[string]json.RawMessage
}

// say adds an entry; a text that is too long is cut.
func (c *chat) say(r events.RunEvent, who, name, text string) *ChatEntry {
	short := clip(text, chatText)
	c.out = append(c.out, ChatEntry{Seq: r.Seq, At: r.At, Who: who, Name: name, Text: short, Cut: len(short) < len(text) || r.Elided > 0})
	return &c.out[len(c.out)-1]
}

func (c *chat) row(r events.RunEvent) {
	var d saidData
	if json.Unmarshal(r.Data, &d) != nil {
		return
	}
	switch r.Kind {
	case events.FactModelAnswered:
		e := c.say(r, ChatAgent, orElse(d.ModelName, d.Model), d.Text)
		e.Thinking = clip(thinkingOf(d.Raw), chatText)
		for _, asked := range d.Calls {
			call := callOf(asked)
			e.Calls = append(e.Calls, call)
			c.calls[asked.CallID] = call
		}
		if d.Left != "" {
			c.say(r, ChatNote, "", d.Left)
		}
	case events.FactModelFailed:
		c.say(r, ChatNote, "", strings.TrimSpace("No answer: "+d.Code+" "+d.Message))
	case events.FactContextCompacted:
		c.say(r, ChatNote, "", fmt.Sprintf("From here on this summary stands for the answers up to row %d:\n\n%s", d.UpTo, d.Summary))
	case events.FactOutputRejected:
		c.say(r, ChatNote, "", orElse(d.Message, strings.Join(d.Problems, "\n")))
	case events.FactMessage:
		c.say(r, ChatPerson, d.Principal, d.Text)
	case events.FactForked:
		c.forked(r, d)
	case events.FactApprovalDecided:
		if call := c.calls[d.CallID]; call != nil {
			c.decided(call, d)
		}
	case events.FactQuestionAsked:
		if call := c.calls[d.CallID]; call != nil && d.Question != nil {
			call.State, call.Note, call.ApprovalID = "asked", clip(d.Question.Text, 300), d.ApprovalID
		}
	case events.FactToolCompleted:
		c.completed(r, d)
	case events.FactSignalReceived:
		c.signals[d.ID] = d.Data
	case events.FactSignalTaken:
		if call := c.calls[d.CallID]; call != nil {
			call.State = "succeeded"
			call.result(r.Seq, c.signals[d.SignalID])
		}
	case events.FactPlanChanged, events.FactFactsChanged:
		if call := c.calls[d.CallID]; call != nil {
			call.State, call.ResultSeq = "succeeded", r.Seq
		}
	case events.FactSleepStarted:
		if call := c.calls[d.CallID]; call != nil {
			call.State, call.Note = "open", "until "+at(d.Until)
		}
	case events.FactTimerFired:
		place := strings.TrimPrefix(strings.TrimPrefix(d.Timer, "sleep-"), "wait-")
		for id, call := range c.calls {
			if place != d.Timer && callPlace(id) == place && call.State == "open" {
				call.State, call.ResultSeq = map[bool]string{true: "succeeded", false: "failed"}[strings.HasPrefix(d.Timer, "sleep-")], r.Seq
			}
		}
	case events.FactChildStarted:
		if call := c.calls[d.CallID]; call != nil {
			call.Child = events.RunID(d.RunID)
			if call.State = "open"; d.Detached {
				call.State = "succeeded"
			}
			c.children[d.Item] = call
		}
	case events.FactChildCompleted:
		if call := c.children[d.Item]; call != nil {
			call.State = map[bool]string{true: "succeeded", false: "failed"}[d.Status == events.StatusCompleted]
			call.result(r.Seq, orElseRaw(d.Shown, d.Output))
			call.fail(d.rowData.Error)
		}
	}
}

func callOf(asked saidCall) *ChatCall {
	call := &ChatCall{ID: events.CallID(asked.CallID), Tool: asked.Tool, State: "open", ApprovalID: asked.ApprovalID}
	text := jsonText(asked.Args)
	call.Args = clip(text, chatArgs)
	call.Cut = len(call.Args) < len(text)
	call.Brief = brief(text)
	switch asked.Route {
	case events.RouteAsk:
		call.State = "asked"
	case events.RouteAnswer:
		call.State = "refused"
		call.fail(asked.Problem)
	case events.RouteHold:
		call.Note = "held until the run goes on"
	}
	return call
}

func (call *ChatCall) result(seq int64, raw json.RawMessage) {
	text := jsonText(raw)
	call.Result, call.ResultSeq = clip(text, chatResult), seq
	call.Cut = call.Cut || len(call.Result) < len(text)
}

func (call *ChatCall) fail(p *events.Problem) {
	if p != nil && p.Code != "" {
		call.Note = clip(strings.TrimSuffix(p.Code+": "+p.Message, ": "), 300)
	}
}

func (c *chat) decided(call *ChatCall, d saidData) {
	call.Note = strings.TrimSuffix(d.Decision+" by "+d.By, " by ")
	switch {
	case d.Kind != events.ApprovalAction:
		if d.Decision == events.Answered {
			call.State = "succeeded"
			call.result(0, d.Result)
		}
	case d.Decision == events.Approve:
		call.State = "open"
		if len(d.Args) > 0 {
			call.Edited, call.Note = true, "changed by "+d.By
			call.Args, call.Brief = clip(jsonText(d.Args), chatArgs), brief(jsonText(d.Args))
		}
	default:
		call.State = "refused"
	}
}

func (c *chat) completed(r events.RunEvent, d saidData) {
	call := c.calls[d.CallID]
	if call == nil {
		e := c.say(r, ChatTool, d.Tool, "")
		call = &ChatCall{ID: events.CallID(d.CallID), Tool: d.Tool}
		e.Calls = []*ChatCall{call}
	}
	call.State = d.Status
	if !call.Edited {
		call.Note = ""
	}
	if d.Settled != "" {
		call.Note = "settled by " + d.Settled
	}
	call.fail(d.rowData.Error)
	call.result(r.Seq, d.Result)
	call.Cut = call.Cut || r.Elided > 0
}

func (c *chat) forked(r events.RunEvent, d saidData) {
	verb := "Fork"
	if strings.Contains(string(r.Data), `"retry":true`) {
		verb = "Retry"
	}
	text := verb + " of the run whose rows come before this one"
	if d.Reason != "" {
		text += ": " + d.Reason
	}
	if d.Edits.Prompt != "" {
		text += "\n\nThe first message is now:\n" + d.Edits.Prompt
	}
	if d.Edits.Message != "" {
		text += "\n\nThe model reads next:\n" + d.Edits.Message
	}
	c.say(r, ChatPerson, d.Principal, text)
}

func orElseRaw(a, b json.RawMessage) json.RawMessage {
	if len(a) > 0 {
		return a
	}
	return b
}

// jsonText is a JSON string's text, or any other value with its digits as they are.
func jsonText(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// clip is the beginning of a text, in whole characters.
func clip(s string, n int) string {
	if len(s) <= n || utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n])
}

// thinkingOf finds in a provider's answer what its model thought: texts under the names
// that the providers give them, and summaries of reasoning.
func thinkingOf(raw string) string {
	var v any
	if raw == "" || json.Unmarshal([]byte(raw), &v) != nil {
		return ""
	}
	var out []string
	var walk func(v any, depth int)
	walk = func(v any, depth int) {
		if depth > 8 || len(out) > 100 {
			return
		}
		switch x := v.(type) {
		case []any:
			for _, item := range x {
				walk(item, depth+1)
			}
		case map[string]any:
			if kind, _ := x["type"].(string); kind == "tool_use" || kind == "function_call" || kind == "tool_calls" {
				return
			}
			for _, name := range []string{"thinking", "reasoning_content", "reasoning"} {
				if text, ok := x[name].(string); ok && strings.TrimSpace(text) != "" {
					out = append(out, text)
				}
			}
			if kind, _ := x["type"].(string); kind == "summary_text" || kind == "reasoning_text" {
				if text, ok := x["text"].(string); ok {
					out = append(out, text)
				}
			}
			for _, name := range []string{"content", "choices", "message", "output", "summary"} {
				walk(x[name], depth+1)
			}
		}
	}
	walk(v, 0)
	return strings.Join(out, "\n\n")
}

func brief(args string) string {
	line := strings.Join(strings.Fields(args), " ")
	if line == "{}" {
		return ""
	}
	if short := clip(line, 80); len(short) < len(line) {
		return short + " …"
	}
	return line
}

// RowWords says in a few words what a row is about; empty where its kind says it all.
func RowWords(r events.RunEvent) string {
	var d saidData
	if json.Unmarshal(r.Data, &d) != nil {
		return ""
	}
	join := func(parts ...string) string {
		return clip(strings.Join(strings.Fields(strings.Join(parts, " ")), " "), 120)
	}
	switch r.Kind {
	case events.FactModelAnswered:
		if n := len(d.Calls); n > 1 {
			return join("asks for", d.Calls[0].Tool, fmt.Sprintf("and %d more", n-1))
		} else if n == 1 {
			return join("asks for", d.Calls[0].Tool)
		}
		return join(d.Text)
	case events.FactToolCompleted, events.FactCallback:
		return join(d.Tool, d.Status, codeOf(d.rowData.Error))
	case events.FactApprovalDecided:
		return strings.TrimSuffix(join(d.Decision, "by", d.By), " by")
	case events.FactChildCompleted:
		return join(d.Item, d.Status, codeOf(d.rowData.Error))
	case events.FactChildrenStarted:
		return join(d.Step, fmt.Sprintf("%d runs", len(d.Children)))
	case events.FactItemsStarted:
		return join(d.Step, fmt.Sprintf("%d items", len(d.Items)))
	case events.FactStepSkipped, events.FactItemRetried:
		return join(d.Step)
	case events.FactModelFailed:
		return join(d.Code, d.Message)
	case events.FactFailed, events.FactAttention, events.FactExpired:
		return codeOf(d.rowData.Error)
	case events.FactPaused, events.FactResumed:
		return strings.TrimSuffix(join("by", orElse(d.Principal, d.By)), "by")
	case events.FactTimerFired:
		return join(d.Timer)
	case events.FactMessage:
		return join(d.Principal+":", d.Text)
	}
	return ""
}
