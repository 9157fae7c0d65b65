package spec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/events"
)

const channelHead = "apiVersion: holdfast/v1\nkind: Channel\nmetadata: {name: ops}\nspec:\n"

func TestChannel_OfEachKind(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Channel{
		`  slack: {token: {env: BOT}, channel: C0123456789, signingSecret: {env: SIGN}}
  people: [{name: ann, slack: U0123456789}]
`: {
			Slack:  &SlackChannel{Token: SecretRef{Env: "BOT"}, Channel: "C0123456789", SigningSecret: SecretRef{Env: "SIGN"}},
			People: []Person{{Name: "ann", Slack: "U0123456789"}},
		},
		"  slack: {webhook: {file: /run/secrets/hook}}\n": {Slack: &SlackChannel{Webhook: SecretRef{File: "/run/secrets/hook"}}},
		`  email: {server: "smtp.example.com:587", username: u, password: {env: PW}, from: "Holdfast <holdfast@example.com>", to: [ops@example.com]}
  allowHosts: [smtp.example.com]
`: {
			Email:      &EmailChannel{Server: "smtp.example.com:587", Security: EmailStartTLS, Username: "u", Password: SecretRef{Env: "PW"}, From: "Holdfast <holdfast@example.com>", To: []string{"ops@example.com"}},
			AllowHosts: []string{"smtp.example.com"},
		},
		"  webhook: {url: {env: HOLDFAST_SECRET_URL}, secrets: [{env: S}]}\n": {Webhook: &WebhookChannel{URL: Setting{Env: "HOLDFAST_SECRET_URL"}, Secrets: []SecretRef{{Env: "S"}}}},
	} {
		docs, err := Parse("c.yaml", []byte(channelHead+text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, err := DecodeChannel(docs[0].Body)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		want.Name = "ops"
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", text, diff)
		}
	}
}

func TestChannel_BadValues(t *testing.T) {
	t.Parallel()
	slack := "  slack: {token: {env: T}, channel: C0123456789, signingSecret: {env: S}}\n"
	mail := func(more string) string {
		return `  email: {server: "smtp.example.com:587", from: a@example.com, to: [b@example.com]` + more + "}\n"
	}
	for text, want := range map[string]string{
		"  description: none\n": "spec: exactly one of email, slack, webhook is required",
		slack + "  webhook: {url: \"https://x\", secrets: [{env: S}]}\n":        "spec.webhook: stands beside slack",
		"  slack: {token: xoxb-1, channel: C0123456789}\n":                      "spec.slack.token: expected {env: NAME} or {file: PATH}",
		"  slack: {channel: C0123456789}\n":                                     "spec.slack: exactly one of token, webhook is required",
		"  slack: {token: {env: T}}\n":                                          "spec.slack.channel: is required",
		"  slack: {token: {env: T}, channel: \"#ops\"}\n":                       "is not the id of a Slack channel",
		"  slack: {webhook: {env: T}, channel: C0123456789}\n":                  "an incoming webhook knows its channel",
		"  slack: {webhook: {env: T}, baseURL: \"ftp://x\"}\n":                  "spec.slack.baseURL: URL must begin with",
		"  slack: {webhook: {env: T}}\n  people: [{name: ann, slack: U012}]\n":  "spec.slack.signingSecret: is required",
		slack + "  people: [{name: ann}]\n":                                     "spec.people[0].slack: is required",
		slack + "  people: [{name: ann, slack: \"@ann\"}]\n":                    "is not the id of a Slack user",
		slack + "  people: [{slack: U012}]\n":                                   "spec.people[0].name: is required",
		slack + "  people: [{name: \"a b\", slack: U012}]\n":                    "spec.people[0].name: \"a b\" is not a name",
		slack + "  people: [{name: a, slack: U012}, {name: b, slack: U012}]\n":  "spec.people[1].slack: \"U012\" stands here twice",
		slack + "  people: [{name: a, slack: U012}, {name: A, slack: U013}]\n":  "spec.people[1].name: \"A\" stands here twice",
		slack + "  peple: []\n":                                                 "unknown field; did you mean \"people\"?",
		"  email: {server: smtp.example.com, from: a@b, to: [c@d]}\n":           "spec.email.server: \"smtp.example.com\" is not host:port",
		"  email: {server: \"smtp.example.com:99999\", from: a@b, to: [c@d]}\n": "spec.email.server",
		mail(", security: none"):                                                "spec.email.security: \"none\" is not one of starttls, tls",
		mail(", username: u"):                                                   "username and password belong together",
		"  email: {server: \"s:25\", from: a@b, to: []}\n":                      "spec.email.to: is required",
		"  email: {server: \"s:25\", from: \"a\\r\\nBcc: x@y\", to: [c@d]}\n":   "spec.email.from",
		"  email: {server: \"s:25\", from: a@b, to: [\"c@d\\n\"]}\n":            "spec.email.to[0]",
		"  email: {server: \"s:25\", from: a@b, to: [\"Ann <c@d>\"]}\n":         "spec.email.to[0]",
		"  email: {server: \"s:25\", from: a@b, to: [c@d, c@d]}\n":              "stands here twice",
		mail("") + "  people: [{name: ann}]\n":                                  "spec.people[0].email: is required",
		"  webhook: {url: \"https://x\"}\n":                                     "spec.webhook.secrets: is required",
		"  webhook: {secrets: [{env: S}]}\n":                                    "spec.webhook.url: is required",
		"  webhook: {url: \"file:///x\", secrets: [{env: S}]}\n":                "spec.webhook.url: URL must begin with",
	} {
		_, err := Parse("c.yaml", []byte(channelHead+text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

const notifyAgent = "apiVersion: holdfast/v1\nkind: Agent\nmetadata: {name: a}\nspec: {model: m, instructions: i%s}\n"

func TestNotify(t *testing.T) {
	t.Parallel()
	for more, want := range map[string]string{
		", notify: {on: [failed, needs_attention, budget, approval_expired, completed, expired], channel: ops}": "",
		", approvals: {}":                                  "spec.approvals.channel: is required",
		", approvals: {channel: \"a b\"}":                  "is not a name",
		", approvals: ops":                                 "spec.approvals: expected",
		", notify: {on: [failed]}":                         "spec.notify.channel: is required",
		", notify: {channel: ops}":                         "spec.notify.on: is required",
		", notify: {on: [], channel: ops}":                 "spec.notify.on: is required",
		", notify: {on: [faild], channel: ops}":            "\"faild\" is not known; did you mean \"failed\"?",
		", notify: {on: [failed, failed], channel: ops}":   "stands here twice",
		", notify: {on: [failed], channel: \"Ops team\"}":  "is not a name",
		", notify: {on: failed, channel: ops}":             "spec.notify.on: expected a list",
		", notify: {on: [failed], channel: ops, also: me}": "unknown field",
	} {
		docs, err := Parse("a.yaml", []byte(strings.Replace(notifyAgent, "%s", more, 1)))
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", more, err, want)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", more, err)
		}
		refs := docs[0].References()
		if last := refs[len(refs)-1]; last.Kind != KindChannel || last.Name != "ops" || last.Field != "spec.notify.channel" || last.Line == 0 {
			t.Errorf("it needs %+v", refs)
		}
		if n := docs[0].Agent.Notify; n.To(events.NoticeBudget) != "ops" || n.To("else") != "" || (*Notify)(nil).To(events.NoticeFailed) != "" {
			t.Errorf("read %+v", n)
		}
	}
	for text, want := range map[string]string{
		"apiVersion: holdfast/v1\nkind: Budget\nmetadata: {name: b}\nspec: {limit: 5, channel: ops}\n":                                           "spec.channel",
		"apiVersion: holdfast/v1\nkind: Flow\nmetadata: {name: f}\nspec: {steps: [{name: s, agent: a}], notify: {on: [failed], channel: ops}}\n": "spec.notify.channel",
		"apiVersion: holdfast/v1\nkind: Agent\nmetadata: {name: a}\nspec: {model: m, instructions: i, approvals: {channel: ops}}\n":              "spec.approvals.channel",
		"apiVersion: holdfast/v1\nkind: Flow\nmetadata: {name: f}\nspec: {steps: [{name: s, agent: a}], approvals: {channel: ops}}\n":            "spec.approvals.channel",
	} {
		docs, err := Parse("b.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		refs := docs[0].References()
		if last := refs[len(refs)-1]; last.Name != "ops" || last.Field != want {
			t.Errorf("%s needs %+v, want %s", docs[0].Kind, refs, want)
		}
	}
	// What says nothing of it keeps its digest.
	docs, err := Parse("a.yaml", []byte(strings.Replace(notifyAgent, "%s", "", 1)))
	if err != nil || strings.Contains(string(docs[0].Body), "notify") {
		t.Errorf("%s, %v", docs[0].Body, err)
	}
}
