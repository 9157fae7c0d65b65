package approvals_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/internal/stdwebhooks"
	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

const chatPost = "/api/chat.postMessage"

var hookSecret = base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))

// outsiders defines a Slack channel ops and a webhook pager that lead to o.
func (b *bench) outsiders(o *outside) {
	b.t.Helper()
	b.book.apply(b.t, "ops", fmt.Sprintf("  slack: {token: {env: BOT}, channel: C0123456789, signingSecret: {env: SIGN}, baseURL: %q}\n", o.URL),
		map[string]string{"BOT": "xoxb-very-secret"})
	b.book.apply(b.t, "pager", fmt.Sprintf("  webhook: {url: %q, secrets: [{env: HOOK}]}\n", o.URL+"/page"), map[string]string{"HOOK": "whsec_" + hookSecret})
}

// tell publishes a notice as the runner does and returns its id.
func (b *bench) tell(n events.Notice, again ...string) events.NoticeID {
	b.t.Helper()
	if n.NoticeID == "" {
		n.RunID = events.NewRunID()
		n.NoticeID = events.RunNotice(n.RunID, events.NoticeFailed)
	}
	n.Namespace, n.Reason, n.Kind, n.Name, n.At = "default", events.NoticeFailed, events.KindAgent, "pricing", time.Now().UTC()
	data, err := events.Marshal(n)
	if err != nil {
		b.t.Fatal(err)
	}
	id := "notify:" + string(n.NoticeID)
	m := events.Message{Subject: events.NoticeSubject(n.NoticeID), MsgID: id + strings.Join(again, ""), ID: id, Source: "/services/runner",
		Type: events.TypeNotify, About: string(n.NoticeID), Namespace: "default", Data: data}
	if err := b.bus.Publish(b.t.Context(), m); err != nil {
		b.t.Fatal(err)
	}
	return n.NoticeID
}

// notice waits until the notice is as wanted.
func (b *bench) notice(id events.NoticeID, what string, ok func(client.Notice) bool) client.Notice {
	b.t.Helper()
	var last client.Notice
	eventually(b.t, what, func() bool {
		page, err := b.as("vic").Notices(b.t.Context(), client.NoticeFilter{}, client.PageRequest{Limit: 100})
		for _, n := range page.Items {
			if n.NoticeID == id {
				last = n
			}
		}
		return err == nil && last.NoticeID == id && ok(last)
	})
	return last
}

func inState(state string) func(client.Notice) bool {
	return func(n client.Notice) bool { return n.State == state }
}

// hurry makes a notice due, or its attempt lost, now.
func (b *bench) hurry(id events.NoticeID) {
	b.t.Helper()
	b.exec(`UPDATE approvals.notices SET next_at = clock_timestamp() WHERE notice_id = $1 AND next_at IS NOT NULL`, string(id))
}

func TestNotices_OneMessageHoweverOftenItIsAsked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := newOutside(t)
	b.outsiders(o)
	n := events.Notice{Channel: "ops", Error: &events.Problem{Code: "budget", Message: "<!channel> & *bold* <https://evil.example|click>"}}
	n.RunID = events.NewRunID()
	n.NoticeID = events.RunNotice(n.RunID, events.NoticeFailed)
	for _, again := range []string{"", ":n1", ":n2"} {
		b.tell(n, again)
	}
	b.idle()
	got := b.notice(n.NoticeID, "it is delivered", inState("delivered"))
	if got.Attempts != 1 || got.Channel != "ops" || got.Title != "Agent pricing: a run failed" || got.DeliveredAt.IsZero() || got.RunID != n.RunID {
		t.Errorf("%+v", got)
	}
	hits := o.at(chatPost)
	if len(hits) != 1 {
		t.Fatalf("Slack got %d messages, want 1", len(hits))
	}
	if hits[0].header.Get("Authorization") != "Bearer xoxb-very-secret" {
		t.Errorf("token %q", hits[0].header.Get("Authorization"))
	}
	m := decoded[struct {
		Channel, Text string
		Blocks        []struct {
			Type   string
			Text   *struct{ Type, Text string }
			Fields []struct{ Type, Text string }
		}
	}](t, hits[0].body)
	if m.Channel != "C0123456789" || strings.ContainsAny(m.Text, "<>") {
		t.Errorf("%+v", m)
	}
	found := false
	for _, block := range m.Blocks {
		if block.Text != nil && block.Text.Type != "plain_text" {
			t.Errorf("a text is %s: what is in it may be markup", block.Text.Type)
		}
		for _, f := range block.Fields {
			if f.Type != "plain_text" {
				t.Errorf("a field is %s", f.Type)
			}
			found = found || strings.Contains(f.Text, "<!channel> & *bold*")
		}
	}
	if !found {
		t.Errorf("the error is not shown in %s", hits[0].body)
	}
	page, err := b.as("zoe").Notices(t.Context(), client.NoticeFilter{}, client.PageRequest{})
	if err != nil || len(page.Items) != 0 {
		t.Errorf("another namespace sees %d notices, %v", len(page.Items), err)
	}
	for filter, want := range map[client.NoticeFilter]int{{State: "delivered"}: 1, {State: "failed"}: 0, {Channel: "ops"}: 1, {Channel: "else"}: 0, {Run: n.RunID}: 1, {Run: events.NewRunID()}: 0} {
		if page, err := b.as("vic").Notices(t.Context(), filter, client.PageRequest{}); err != nil || len(page.Items) != want {
			t.Errorf("%+v: %d notices, %v; want %d", filter, len(page.Items), err, want)
		}
	}
}

// A process that is lost between the message and its record: what cannot be told
// from a repeat is unknown and not sent again; what can is sent again under its id.
func TestNotices_LostBetweenMessageAndRecord(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := newOutside(t)
	b.outsiders(o)
	for channel, want := range map[string]struct {
		path, state string
		messages    int
	}{"ops": {chatPost, "unknown", 1}, "pager": {"/page", "delivered", 2}} {
		n := events.Notice{Channel: channel, RunID: events.NewRunID()}
		n.NoticeID = events.RunNotice(n.RunID, events.NoticeFailed)
		disarm, err := failpoint.Arm("approvals.told["+string(n.NoticeID)+"]=error", "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(disarm)
		b.tell(n)
		eventually(t, "the message arrives", func() bool { return len(o.at(want.path)) == 1 })
		b.notice(n.NoticeID, "its attempt is under way", inState("sending"))
		disarm()
		b.hurry(n.NoticeID) // its lease is over
		b.notice(n.NoticeID, "it ends", inState(want.state))
		hits := o.at(want.path)
		if len(hits) != want.messages {
			t.Errorf("%s: %d messages, want %d", channel, len(hits), want.messages)
		}
		for _, h := range hits {
			if id := h.header.Get(stdwebhooks.HeaderID); channel == "pager" && id != string(n.NoticeID) {
				t.Errorf("webhook-id %s, want the notice's in every attempt", id)
			}
		}
	}
}

func TestNotices_WaitsAreRows(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := newOutside(t)
	b.outsiders(o)
	// Slack is told when to come again.
	o.next(status(429, "Retry-After", "40"), says(`{"ok":false,"error":"not_in_channel"}`))
	id := b.tell(events.Notice{Channel: "ops"})
	got := b.notice(id, "it waits", func(n client.Notice) bool { return n.State == "due" && n.Attempts == 1 })
	if wait := got.NextAt.Sub(got.CreatedAt); wait < 40*time.Second || wait > 2*time.Minute || !strings.Contains(got.Problem, "429") {
		t.Errorf("the next attempt is in %s (%s), want 40 s", wait, got.Problem)
	}
	b.hurry(id)
	if got = b.notice(id, "it waits again", func(n client.Notice) bool { return n.State == "due" && n.Attempts == 2 }); !strings.Contains(got.Problem, "not_in_channel") {
		t.Errorf("problem %q", got.Problem)
	}
	b.hurry(id)
	b.notice(id, "it is delivered", inState("delivered"))

	// A channel that is not there yet.
	id = b.tell(events.Notice{Channel: "night"})
	if got := b.notice(id, "it waits for its channel", func(n client.Notice) bool { return n.State == "due" && n.Attempts == 1 }); !strings.Contains(got.Problem, "no such channel") {
		t.Errorf("problem %q", got.Problem)
	}
	b.book.apply(t, "night", fmt.Sprintf("  slack: {webhook: {env: NIGHT}}\n  allowHosts: [127.0.0.1]\n"), map[string]string{"NIGHT": o.URL + "/services/T0/B0/secret-path"})
	b.hurry(id)
	b.notice(id, "it is delivered", inState("delivered"))
	if len(o.at("/services/T0/B0/secret-path")) != 1 {
		t.Error("the incoming webhook got nothing")
	}

	// A day later it is over, and what Slack can never show is over at once.
	o.next(status(500), says(`{"ok":false,"error":"invalid_blocks"}`))
	if got := b.notice(b.tell(events.Notice{Channel: "ops"}), "nobody knows", inState("unknown")); !strings.Contains(got.Problem, "500") {
		t.Errorf("%+v", got)
	}
	b.notice(b.tell(events.Notice{Channel: "ops"}), "it is refused", inState("failed"))
	id = b.tell(events.Notice{Channel: "nowhere"})
	b.notice(id, "it waits", func(n client.Notice) bool { return n.State == "due" && n.Attempts == 1 })
	b.exec(`UPDATE approvals.notices SET created_at = created_at - interval '1 day' WHERE notice_id = $1`, string(id))
	b.hurry(id)
	if got := b.notice(id, "it has failed", inState("failed")); !strings.Contains(got.Problem, "no such channel") {
		t.Errorf("problem %q", got.Problem)
	}
	if n := b.count(`SELECT count(*) FROM approvals.notices WHERE problem LIKE '%secret%'`); n != 0 {
		t.Error("a problem holds a secret")
	}
}

// What the webhook gets is signed over its bytes and holds every digit.
func TestNotices_WebhookIsSigned(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := newOutside(t)
	b.outsiders(o)
	o.next(status(503))
	n := events.Notice{Channel: "pager", Alert: &events.BudgetAlert{Limit: 9007199254740993}}
	id := b.tell(n)
	b.notice(id, "it waits", func(n client.Notice) bool { return n.State == "due" && n.Attempts == 1 })
	b.hurry(id)
	b.notice(id, "it is delivered", inState("delivered"))
	hits := o.at("/page")
	if len(hits) != 2 {
		t.Fatalf("%d posts, want 2", len(hits))
	}
	key, err := stdwebhooks.ParseKey("whsec_" + hookSecret)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hits {
		at, err := strconv.ParseInt(h.header.Get(stdwebhooks.HeaderTimestamp), 10, 64)
		if err != nil || time.Since(time.Unix(at, 0)).Abs() > time.Minute {
			t.Errorf("timestamp %s (%v)", h.header.Get(stdwebhooks.HeaderTimestamp), err)
		}
		want := "v1," + base64.StdEncoding.EncodeToString(stdwebhooks.MAC(key.HMAC, stdwebhooks.Signed(string(id), h.header.Get(stdwebhooks.HeaderTimestamp), h.body)))
		if h.header.Get(stdwebhooks.HeaderSignature) != want || h.header.Get(stdwebhooks.HeaderID) != string(id) {
			t.Errorf("signed %s", h.header.Get(stdwebhooks.HeaderSignature))
		}
		body := decoded[struct {
			Type, Title string
			Data        events.Notice
		}](t, h.body)
		if body.Type != "holdfast.notice" || body.Data.NoticeID != id || body.Data.Alert.Limit != 9007199254740993 {
			t.Errorf("posted %s", h.body)
		}
	}
}

func TestNotices_WhatIsNoneIsRejected(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i, bad := range []events.Notice{{}, {NoticeID: "a.b", Namespace: "default", Channel: "c", Reason: "failed"}, {NoticeID: "n", Namespace: "default", Channel: "c", Reason: "failed", RunID: "x"}} {
		b.send(events.TypeNotify, events.ApprovalNotify, fmt.Sprint("notify:", i), fmt.Sprint("m", i), "n", bad)
	}
	eventually(t, "they are kept as rejected", func() bool { return b.count("SELECT count(*) FROM approvals.rejected WHERE code = 'invalid'") == 3 })
	if e, ok := errors.AsType[*client.Error](func() error {
		_, err := b.as("").Notices(t.Context(), client.NoticeFilter{}, client.PageRequest{})
		return err
	}()); !ok || e.Status != 401 {
		t.Errorf("without a token: %v", e)
	}
}
