package notify

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/approvals"
)

// Slack posts to a channel of Slack. It has nothing that would tell a repeat from
// the first, so what may have been posted is not posted again.
type Slack struct{ Config }

var _ approvals.Channel = (*Slack)(nil)

// Runs implements approvals.Channel.
func (s *Slack) Runs(c *spec.Channel) bool { return c.Slack != nil }

// Repeats implements approvals.Channel.
func (s *Slack) Repeats() bool { return false }

// Send implements approvals.Channel.
func (s *Slack) Send(ctx context.Context, c *spec.Channel, m approvals.Message) approvals.Delivery {
	body := slackMessage{Channel: c.Slack.Channel, Text: slackText(m.Title), Blocks: slackBlocks(m)}
	if c.Slack.Token.IsZero() {
		return s.hook(ctx, c, body)
	}
	a, d := s.call(ctx, c, "chat.postMessage", body)
	if d.Verdict == approvals.Taken && m.Ask != nil && a.Channel != "" && a.TS != "" {
		d.Receipt = a.Channel + " " + a.TS // the buttons go once it is decided
	}
	return d
}

type slackMessage struct {
	Channel     string       `json:"channel,omitempty"`
	Text        string       `json:"text"` // what a notification shows; it is markup
	Blocks      []slackBlock `json:"blocks"`
	UnfurlLinks bool         `json:"unfurl_links"`
	UnfurlMedia bool         `json:"unfurl_media"`
}

type slackBlock struct {
	Type     string        `json:"type"`
	BlockID  string        `json:"block_id,omitempty"`
	Text     *slackPlain   `json:"text,omitempty"`
	Fields   []*slackPlain `json:"fields,omitempty"`
	Elements []any         `json:"elements,omitempty"`
	Optional bool          `json:"optional,omitempty"` // of an input, with Label and Element
	Label    *slackPlain   `json:"label,omitempty"`
	Element  any           `json:"element,omitempty"`
}

// slackPlain is text in which nothing is markup: no mention, no link, no emoji.
type slackPlain struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	Emoji bool   `json:"emoji"`
}

// Limits of Block Kit, in characters.
// Source: docs.slack.dev, reference of blocks and of the text object.
const (
	slackHeader = 150
	slackBody   = 3000
	slackField  = 2000
)

func plainText(s string, limit int) *slackPlain {
	if s = cutTo(s, limit); s == "" {
		s = "-" // an empty text is refused
	}
	return &slackPlain{Type: "plain_text", Text: s}
}

// slackBlocks shows a message; hostile text stands in plain text only.
func slackBlocks(m approvals.Message) []slackBlock {
	out := []slackBlock{{Type: "header", Text: plainText(m.Title, slackHeader)}}
	var short []*slackPlain
	for _, f := range m.Facts {
		text := f.Name + ": " + f.Value
		if len(text) > 200 || strings.Contains(f.Value, "\n") {
			out = append(out, slackBlock{Type: "section", Text: plainText(text, slackBody)})
		} else if len(short) < 10 {
			short = append(short, plainText(text, slackField))
		}
	}
	if len(short) > 0 {
		out = append(out, slackBlock{Type: "section", Fields: short})
	}
	out = append(out, askBlocks(m.Ask)...)
	if m.Hint != "" {
		out = append(out, slackBlock{Type: "context", Elements: []any{plainText(m.Hint, slackBody)}})
	}
	return out
}

// slackText escapes what is markup in Slack's text: without these three there is
// neither a mention nor a link. Source: docs.slack.dev, formatting message text.
func slackText(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(cutTo(s, slackBody))
}

// cutTo bounds s to limit characters.
func cutTo(s string, limit int) string {
	n := 0
	for i := range s {
		if n++; n > limit {
			return s[:i]
		}
	}
	return s
}

// hook posts to an incoming webhook, whose address is the secret.
func (s *Slack) hook(ctx context.Context, c *spec.Channel, body slackMessage) approvals.Delivery {
	url, err := s.secret("slack.webhook", c.Slack.Webhook)
	if err != nil {
		return later(err)
	}
	resp, d, ok := s.send(ctx, c, url, "", body)
	if !ok {
		return d
	}
	d = judge(resp)
	// What it cannot show it never shows; Slack answers in words.
	if text := string(resp.Body); resp.Status == http.StatusBadRequest && (strings.Contains(text, "invalid_payload") || strings.Contains(text, "invalid_blocks") || strings.Contains(text, "no_text")) {
		d.Verdict = approvals.Refused
	}
	return d
}

// slackAnswer is what a method of the Web API answers.
type slackAnswer struct {
	OK      bool   `json:"ok"`
	Error   string `json:"error"`
	Channel string `json:"channel"`
	TS      string `json:"ts"`
}

// call calls a method of the Web API.
func (s *Slack) call(ctx context.Context, c *spec.Channel, method string, body any) (slackAnswer, approvals.Delivery) {
	var a slackAnswer
	token, err := s.secret("slack.token", c.Slack.Token)
	if err != nil {
		return a, later(err)
	}
	base := c.Slack.BaseURL.Resolve(s.LookupEnv)
	if base == "" {
		base = "https://slack.com"
	}
	resp, d, ok := s.send(ctx, c, strings.TrimRight(base, "/")+"/api/"+method, token, body)
	if !ok {
		return a, d
	}
	if d = judge(resp); d.Verdict != approvals.Taken {
		return a, d
	}
	if resp.Broken != nil || json.Unmarshal(resp.Body, &a) != nil {
		return a, approvals.Delivery{Verdict: approvals.Uncertain, Problem: "the answer of Slack cannot be read"}
	}
	return a, slackVerdict(a)
}

// slackVerdict says what ok and error of an answer mean. Most errors are of the
// token or the channel, which somebody may mend while the message waits.
// Source: docs.slack.dev, errors of chat.postMessage.
func slackVerdict(a slackAnswer) approvals.Delivery {
	if a.OK {
		return approvals.Delivery{Verdict: approvals.Taken}
	}
	d := approvals.Delivery{Verdict: approvals.NotTaken, Problem: "Slack answered " + cutTo(a.Error, 100)}
	switch a.Error {
	case "invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long", "msg_too_long", "no_text", "too_many_attachments", "invalid_arguments", "message_not_found", "cant_update_message":
		d.Verdict = approvals.Refused
	case "internal_error", "fatal_error", "request_timeout", "":
		d.Verdict = approvals.Uncertain
	}
	return d
}

func (s *Slack) send(ctx context.Context, c *spec.Channel, url, token string, body any) (egress.Response, approvals.Delivery, bool) {
	text, err := events.Marshal(body)
	if err != nil {
		return egress.Response{}, approvals.Delivery{Verdict: approvals.Refused, Problem: err.Error()}, false
	}
	reach, err := s.reach(c)
	if err != nil {
		return egress.Response{}, later(err), false
	}
	req := egress.Request{URL: url, Header: http.Header{}, Body: text, Reach: reach}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return s.post(ctx, req)
}
