package spec

import (
	"fmt"
	"net"
	"net/mail"
	"regexp"
	"strings"
)

// How a connection to a mail server is protected.
const (
	EmailStartTLS = "starttls" // a plain connection that must turn into TLS before anything is said
	EmailTLS      = "tls"      // TLS from the first byte
)

// Channel is where people are told something: a Slack channel, mailboxes, or a
// program that takes a signed POST.
type Channel struct {
	Metadata    `json:"-"`
	Description string `json:"description,omitempty"` // what it is for, for people
	// Exactly one of Slack, Email and Webhook.
	Slack   *SlackChannel   `json:"slack,omitempty"`
	Email   *EmailChannel   `json:"email,omitempty"`   // mailboxes
	Webhook *WebhookChannel `json:"webhook,omitempty"` // a program that takes a signed POST
	// People may decide what the channel asks: who they are there, and the name
	// that the record has of them.
	People []Person `json:"people,omitempty"`
	// Digest tells the channel once a day what waits for people in its namespace.
	Digest *Digest `json:"digest,omitempty"`
	// AllowHosts and TLS are as in Tool.
	AllowHosts []string `json:"allowHosts,omitempty"`
	TLS        *TLS     `json:"tls,omitempty"` // of the connection; absent: the system's authorities
}

// SlackChannel is one channel of a Slack workspace.
type SlackChannel struct {
	// Token is a bot's token (xoxb-...), which posts to Channel. Webhook is the
	// URL of an incoming webhook, which knows its channel. Exactly one of them.
	Token   SecretRef `json:"token,omitzero"`
	Channel string    `json:"channel,omitempty"` // its id: C0123456789
	Webhook SecretRef `json:"webhook,omitzero"`  // address of an incoming webhook, instead of Token and Channel
	// SigningSecret proves that a click comes from Slack; with People.
	SigningSecret SecretRef `json:"signingSecret,omitzero"`
	// BaseURL overrides https://slack.com.
	BaseURL Setting `json:"baseURL,omitzero"`
}

// EmailChannel is mail through one server.
type EmailChannel struct {
	Server   string    `json:"server"`             // host:port
	Security string    `json:"security"`           // EmailStartTLS (default) or EmailTLS
	Username string    `json:"username,omitempty"` // with Password
	Password SecretRef `json:"password,omitzero"`  // of Username
	From     string    `json:"from"`               // the sender
	To       []string  `json:"to"`                 // mailboxes that are told
}

// WebhookChannel is a program that takes a POST, signed as Standard Webhooks has it.
type WebhookChannel struct {
	URL     Setting     `json:"url"`     // where it is posted to
	Secrets []SecretRef `json:"secrets"` // each signs; Standard Webhooks: whsec_ and base64
}

// Person may decide what a channel asks.
type Person struct {
	Name  string `json:"name"`            // in the record, as of a token
	Slack string `json:"slack,omitempty"` // id of a Slack user: U0123456789
	Email string `json:"email,omitempty"` // mailbox that gets links of its own
	// Groups are those of Deciders; see Rule.
	Groups []string `json:"groups,omitempty"`
}

var (
	slackChannelPattern = regexp.MustCompile(`^[CGD][A-Z0-9]{2,30}$`)
	slackUserPattern    = regexp.MustCompile(`^[UW][A-Z0-9]{2,30}$`)
	personPattern       = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,99}$`)
)

func (c *Channel) fill() {
	if c.Email != nil && c.Email.Security == "" {
		c.Email.Security = EmailStartTLS
	}
	c.Digest.fill()
}

func (c *Channel) check(d *decoder, s spot) {
	d.text(s.at("description"), c.Description, 4<<10)
	d.exactlyOne(s, map[string]bool{"slack": c.Slack != nil, "email": c.Email != nil, "webhook": c.Webhook != nil})
	if c.Slack != nil {
		c.Slack.check(d, s.at("slack"))
	}
	if c.Email != nil {
		c.Email.check(d, s.at("email"))
	}
	if c.Webhook != nil {
		c.Webhook.check(d, s.at("webhook"))
	}
	c.TLS.check(d, s.at("tls"))
	d.allowHosts(s.at("allowHosts"), c.AllowHosts)
	c.checkPeople(d, s)
	c.Digest.check(d, s.at("digest"))
}

func (c *Channel) checkPeople(d *decoder, s spot) {
	if len(c.People) > 100 {
		d.fail(s.at("people"), "has %d people; at most 100 are allowed", len(c.People))
		return
	}
	if len(c.People) > 0 && c.Slack != nil {
		d.require(s.at("slack", "signingSecret"), !c.Slack.SigningSecret.IsZero(), "{env: NAME} or {file: PATH}; without it nobody knows whether a click comes from Slack")
	}
	seen := map[string]bool{}
	once := func(at spot, what, value string) {
		if value == "" {
			return
		}
		if key := what + " " + strings.ToLower(value); seen[key] {
			d.fail(at, "%q stands here twice", shorten(value))
		} else {
			seen[key] = true
		}
	}
	for i := range c.People {
		p, at := &c.People[i], s.at("people", i)
		if d.require(at.at("name"), p.Name != "", "the name that the record has of this person"); p.Name != "" && !personPattern.MatchString(p.Name) {
			d.fail(at.at("name"), "%q is not a name: 1 to 100 of A-Z a-z 0-9 . _ @ -, starting with a letter or digit", shorten(p.Name))
		}
		if p.Slack != "" && !slackUserPattern.MatchString(p.Slack) {
			d.fail(at.at("slack"), "%q is not the id of a Slack user, like U0123456789; names can be changed by their owners", shorten(p.Slack))
		}
		if p.Email != "" {
			d.address(at.at("email"), p.Email, false)
		}
		d.groups(at.at("groups"), p.Groups)
		switch {
		case c.Slack != nil:
			d.require(at.at("slack"), p.Slack != "", "the id of the Slack user")
		case c.Email != nil:
			d.require(at.at("email"), p.Email != "", "the address of the person")
		}
		once(at.at("name"), "name", p.Name)
		once(at.at("slack"), "slack", p.Slack)
		once(at.at("email"), "email", p.Email)
	}
}

func (c *SlackChannel) check(d *decoder, s spot) {
	d.exactlyOne(s, map[string]bool{"token": !c.Token.IsZero(), "webhook": !c.Webhook.IsZero()})
	switch {
	case !c.Webhook.IsZero() && c.Channel != "":
		d.fail(s.at("channel"), "an incoming webhook knows its channel; leave it out")
	case !c.Token.IsZero():
		d.require(s.at("channel"), c.Channel != "", "the id of a Slack channel, like C0123456789")
	}
	if c.Channel != "" && !slackChannelPattern.MatchString(c.Channel) {
		d.fail(s.at("channel"), "%q is not the id of a Slack channel, like C0123456789; it stands at the end of the channel's details", shorten(c.Channel))
	}
	if c.BaseURL.Value != "" {
		if _, err := checkURL(c.BaseURL.Value); err != nil {
			d.fail(s.at("baseURL"), "%s", err)
		}
	}
}

func (c *EmailChannel) check(d *decoder, s spot) {
	d.require(s.at("server"), c.Server != "", "host:port of a mail server, like smtp.example.com:587")
	if _, _, err := net.SplitHostPort(c.Server); c.Server != "" && (err != nil || !inHostForm(c.Server)) {
		d.fail(s.at("server"), "%q is not host:port, like smtp.example.com:587, in lower case", shorten(c.Server))
	}
	d.oneOf(s.at("security"), c.Security, EmailStartTLS, EmailTLS)
	if (c.Username == "") != c.Password.IsZero() {
		d.fail(s, "username and password belong together: give both or none")
	}
	d.text(s.at("username"), c.Username, 320)
	if strings.ContainsFunc(c.Username, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		d.fail(s.at("username"), "must not hold control characters")
	}
	if d.require(s.at("from"), c.From != "", "the address of the sender"); c.From != "" {
		d.address(s.at("from"), c.From, true)
	}
	d.require(s.at("to"), len(c.To) > 0, "at least one address")
	if len(c.To) > 50 {
		d.fail(s.at("to"), "has %d addresses; at most 50 are allowed", len(c.To))
		return
	}
	for i, to := range c.To {
		d.address(s.at("to", i), to, false)
		if contains(c.To[:i], to) {
			d.fail(s.at("to", i), "%q stands here twice", shorten(to))
		}
	}
}

// address checks one address of mail; named allows a name before it.
func (d *decoder) address(s spot, text string, named bool) {
	a, err := mail.ParseAddress(text)
	plain := err == nil && len(text) <= 320 && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
	if !plain || !named && a.Address != text || strings.ContainsAny(a.Address, " \"<>") {
		want := "ann@example.com"
		if named {
			want += " or Holdfast <ann@example.com>"
		}
		d.fail(s, "%q is not an address of mail in ASCII; write %s", shorten(text), want)
	}
}

func (c *WebhookChannel) check(d *decoder, s spot) {
	d.require(s.at("url"), !c.URL.IsZero(), "where to post, or {env: NAME}")
	if c.URL.Value != "" {
		if _, err := checkURL(c.URL.Value); err != nil {
			d.fail(s.at("url"), "%s", err)
		}
	}
	d.require(s.at("secrets"), len(c.Secrets) > 0, "at least one {env: NAME} or {file: PATH}, to sign what is posted")
	d.secrets(s.at("secrets"), c.Secrets)
}

// References is empty: a channel needs nothing beside it.
func (c *Channel) References() []Reference { return nil }

// Kind is "slack", "email" or "webhook".
func (c *Channel) Kind() string {
	switch {
	case c.Slack != nil:
		return "slack"
	case c.Email != nil:
		return "email"
	}
	return "webhook"
}

// Person returns who has the name; false when nobody has.
func (c *Channel) Person(name string) (Person, bool) {
	for _, p := range c.People {
		if p.Name == name {
			return p, true
		}
	}
	return Person{}, false
}

// PersonOf returns the person with the id of a Slack user; false when none has it.
func (c *Channel) PersonOf(slackUser string) (Person, bool) {
	for _, p := range c.People {
		if p.Slack != "" && p.Slack == slackUser {
			return p, true
		}
	}
	return Person{}, false
}

// channelReference names a channel that stands at field.
func channelReference(field, name string) []Reference {
	if name == "" {
		return nil
	}
	return []Reference{{Kind: KindChannel, Name: name, Field: fmt.Sprintf("spec.%s", field)}}
}
