package notify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/approvals"
)

var (
	_ approvals.Clicks  = (*Slack)(nil)
	_ approvals.Updater = (*Slack)(nil)
)

// slackTolerance is how old a signed click may be. Source: docs.slack.dev,
// verifying requests from Slack.
const slackTolerance = 5 * time.Minute

const (
	slackActions = "holdfast_decide"
	slackMore    = "holdfast_more"
	slackOpen    = "holdfast_open" // a click there only follows a link
	slackComment = "holdfast_text"
)

// askBlocks are what a person clicks.
func askBlocks(a *approvals.Asked) []slackBlock {
	if a == nil || a.Ref == "" {
		return nil
	}
	var out []slackBlock
	if a.Text != "" {
		out = append(out, slackBlock{Type: "input", BlockID: slackComment, Optional: !a.Needed, Label: plainText(a.Text, 100),
			Element: map[string]any{"type": "plain_text_input", "action_id": "text", "multiline": true, "max_length": 3000}})
	}
	out = append(out, slackButtons(slackActions, a.Ref, a.Choices))
	if len(a.More) > 0 {
		out = append(out, slackButtons(slackMore, a.Ref, a.More))
	}
	return out
}

func slackButtons(id, ref string, choices []approvals.Choice) slackBlock {
	row := slackBlock{Type: "actions", BlockID: id}
	for _, c := range choices {
		b := map[string]any{"type": "button", "action_id": c.Action, "text": plainText(c.Label, 75), "value": ref}
		if c.Style != "" {
			b["style"] = c.Style
		}
		row.Elements = append(row.Elements, b)
	}
	return row
}

// Update implements approvals.Updater: the buttons go, and the result stands there.
func (s *Slack) Update(ctx context.Context, c *spec.Channel, receipt string, m approvals.Message) approvals.Delivery {
	channel, ts, ok := strings.Cut(receipt, " ")
	if !ok || c.Slack == nil || c.Slack.Token.IsZero() {
		return approvals.Delivery{Verdict: approvals.Refused, Problem: "the message cannot be changed with what the channel has"}
	}
	text := m.Title
	if len(m.Facts) > 0 {
		text += ": " + m.Facts[0].Value
	}
	_, d := s.call(ctx, c, "chat.update", struct {
		slackMessage
		TS string `json:"ts"`
	}{slackMessage{Channel: channel, Text: slackText(text), Blocks: slackBlocks(m)}, ts})
	return d
}

// slackPayload is what is read of a click.
type slackPayload struct {
	Type string `json:"type"`
	User struct {
		ID string `json:"id"`
	} `json:"user"`
	ResponseURL string `json:"response_url"`
	Actions     []struct {
		ActionID string `json:"action_id"`
		BlockID  string `json:"block_id"`
		Value    string `json:"value"`
	} `json:"actions"`
	State struct {
		Values map[string]map[string]struct {
			Value string `json:"value"`
		} `json:"values"`
	} `json:"state"`
}

func slackClick(body []byte) (p slackPayload, ok bool) {
	form, err := url.ParseQuery(string(body))
	if err != nil || json.Unmarshal([]byte(form.Get("payload")), &p) != nil {
		return slackPayload{}, false
	}
	return p, true
}

// Claims implements approvals.Clicks.
func (s *Slack) Claims(body []byte) string {
	p, ok := slackClick(body)
	if !ok || len(p.Actions) == 0 {
		return ""
	}
	return p.Actions[0].Value
}

// Read implements approvals.Clicks. Who clicked is the id that Slack gives; names
// are never read.
func (s *Slack) Read(c *spec.Channel, h http.Header, body []byte, now time.Time) (approvals.Click, error) {
	if c.Slack == nil || c.Slack.SigningSecret.IsZero() {
		return approvals.Click{}, approvals.ErrSignature
	}
	secret, err := s.secret("slack.signingSecret", c.Slack.SigningSecret)
	if err != nil {
		return approvals.Click{}, err
	}
	if !slackSigned(secret, h, body, now) {
		return approvals.Click{}, approvals.ErrSignature
	}
	p, ok := slackClick(body)
	if !ok || p.Type != "block_actions" || len(p.Actions) == 0 || p.Actions[0].BlockID != slackActions && p.Actions[0].BlockID != slackMore {
		return approvals.Click{}, nil
	}
	a := p.Actions[0]
	return approvals.Click{Ref: a.Value, Action: a.ActionID, User: p.User.ID, Text: p.State.Values[slackComment]["text"].Value, Reply: p.ResponseURL}, nil
}

// slackSigned verifies a signature of version v0 over the raw bytes.
func slackSigned(secret string, h http.Header, body []byte, now time.Time) bool {
	stamp := h.Get("X-Slack-Request-Timestamp")
	at, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || now.Sub(time.Unix(at, 0)).Abs() > slackTolerance {
		return false
	}
	m := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(m, "v0:%s:", stamp)
	m.Write(body)
	got, err := hex.DecodeString(strings.TrimPrefix(h.Get("X-Slack-Signature"), "v0="))
	return err == nil && strings.HasPrefix(h.Get("X-Slack-Signature"), "v0=") && hmac.Equal(got, m.Sum(nil))
}

// Reply implements approvals.Clicks.
func (s *Slack) Reply(ctx context.Context, c *spec.Channel, k approvals.Click, a approvals.Answer) approvals.Delivery {
	if err := s.replies(c, k.Reply); err != nil {
		return approvals.Delivery{Verdict: approvals.Refused, Problem: err.Error()}
	}
	body := struct {
		ResponseType    string       `json:"response_type"`
		ReplaceOriginal bool         `json:"replace_original"`
		Text            string       `json:"text"`
		Blocks          []slackBlock `json:"blocks"`
	}{"ephemeral", a.Instead, slackText(a.Text), []slackBlock{{Type: "section", Text: plainText(a.Text, slackBody)}}}
	if a.Link != "" { // Slack tells us of that click as well: its value says whose it is
		body.Blocks = append(body.Blocks, slackBlock{Type: "actions", BlockID: slackOpen, Elements: []any{
			map[string]any{"type": "button", "action_id": approvals.OpenAction, "text": plainText("Open", 75), "url": a.Link, "value": k.Ref}}})
	}
	if a.Instead {
		body.ResponseType = "in_channel"
	}
	resp, d, ok := s.send(ctx, c, k.Reply, "", body)
	if !ok {
		return d
	}
	return judge(resp)
}

// replies reports why an address is not Slack's own: what a click holds is signed,
// but we post nowhere else because of it.
func (s *Slack) replies(c *spec.Channel, address string) error {
	u, err := url.Parse(address)
	if err != nil || u.User != nil {
		return errors.New("the click names no address for answers")
	}
	if base, err := url.Parse(c.Slack.BaseURL.Resolve(s.LookupEnv)); err == nil && base.Host != "" {
		if u.Scheme == base.Scheme && u.Host == base.Host {
			return nil
		}
	} else if u.Scheme == "https" && u.Host == "hooks.slack.com" {
		return nil
	}
	return errors.New("the click names an address for answers that is not Slack's")
}
