package spec

import (
	"fmt"
	"strings"
	"time"
)

// defaultTolerance bounds the age of a signed time.
const defaultTolerance = Duration(5 * time.Minute)

// What becomes of a delivery that holds a list of events.
const (
	BatchItem  = "item"  // one run for each
	BatchWhole = "whole" // one run for all
)

// What becomes of a request without a body.
const (
	EmptyBodyRefuse = "refuse"
	EmptyBodyObject = "object" // it counts as {}
)

// MaxWebhookBody bounds what maxBody of a webhook may be, in bytes.
const MaxWebhookBody = 25 << 20

// MaxLabels bounds the labels of one run.
const MaxLabels = 16

// Webhook starts a run for each delivery that another system posts.
type Webhook struct {
	Metadata `json:"-"`
	Provider string `json:"provider"` // who sends, and how it is proven: docs/webhooks.md
	// Secrets sign deliveries; any of them may have signed, so one can be
	// replaced without a gap.
	Secrets []SecretRef `json:"secrets,omitempty"`
	// Tolerance bounds the age of a signed timestamp; default 5 m.
	Tolerance Duration `json:"tolerance"`
	Agent     string   `json:"agent,omitempty"` // exactly one of Agent, Flow and Signal
	Flow      string   `json:"flow,omitempty"`  // or Agent: what is started
	// Signal sends each delivery to a run that waits, instead of starting one.
	Signal *SignalSend `json:"signal,omitempty"`
	// Input, Labels and Dedupe are over ${body...}, ${headers...} (names in
	// lower case) and ${query...}. Input defaults to "${body}", Dedupe to the
	// provider's own delivery id.
	Input  *Template            `json:"input,omitempty"`
	Labels map[string]*Template `json:"labels,omitempty"` // of the run, from the request
	Dedupe *Template            `json:"dedupe,omitempty"` // what makes two requests the same; default what the provider says
	Paused bool                 `json:"paused"`           // nothing is accepted
	// Filter is over body, headers and query. A delivery for which it is false
	// starts nothing; one for which it cannot be decided starts its run.
	Filter *Condition `json:"filter,omitempty"`
	// Batch is for senders that post lists; default BatchItem.
	Batch string `json:"batch,omitempty"`
	// EmptyBody is EmptyBodyRefuse or EmptyBodyObject; empty is the provider's own way.
	EmptyBody string `json:"emptyBody,omitempty"`
	// PublicURL is the address that the sender was given, for senders that sign
	// it. The query of a request is taken from the request.
	PublicURL string     `json:"publicURL,omitempty"`
	Signature *Signature `json:"signature,omitempty"` // how a generic sender signs
	RateLimit *RateLimit `json:"rateLimit,omitempty"` // how many requests are accepted
	// MaxInFlight bounds the runs of this webhook that have not ended; 0 is no bound.
	MaxInFlight int64 `json:"maxInFlight,omitempty"`
	// MaxBody bounds a request; 0 is the bound of the door, which no webhook can raise.
	MaxBody Size `json:"maxBody,omitempty"`
	// Deadline ends each run that long after its delivery, as Agent.Deadline does.
	Deadline Duration `json:"deadline,omitempty"`
	// Priority is what each start asks for: it lowers what the agent or flow says and
	// never lifts it.
	Priority string `json:"priority,omitempty"`
}

// RateLimit bounds how often deliveries start runs. Repeats are not counted.
type RateLimit struct {
	PerMinute int64 `json:"perMinute"` // how many
	Burst     int64 `json:"burst"`     // how many may come at once; default PerMinute
}

func (w *Webhook) fill() {
	if w.Tolerance == 0 {
		w.Tolerance = defaultTolerance
	}
	if w.Signal != nil {
		w.Signal.fill()
	} else if w.Input == nil {
		w.Input = mustTemplate(`"${body}"`)
	}
	if p, _ := providerNamed(w.Provider); w.Batch == "" && p.uses("batch") {
		w.Batch = BatchItem
	}
	if w.RateLimit != nil && w.RateLimit.Burst == 0 {
		w.RateLimit.Burst = w.RateLimit.PerMinute
	}
}

func (w *Webhook) check(d *decoder, s spot) {
	d.require(s.at("provider"), w.Provider != "", "one of "+strings.Join(Providers(), ", "))
	if w.Provider != "" && d.oneOf(s.at("provider"), w.Provider, Providers()...) {
		p, _ := providerNamed(w.Provider)
		p.check(d, s, w)
	}
	for i, secret := range w.Secrets {
		if secret.IsZero() {
			d.fail(s.at("secrets", i), "exactly one of env, file is required")
		}
	}
	d.within(s.at("tolerance"), w.Tolerance, time.Second, 24*time.Hour)
	w.checkTarget(d, s)
	w.checkIntake(d, s)
	roots := []string{"body", "headers", "query"}
	d.compile(s.at("filter"), w.Filter, roots...)
	d.roots(w.Input, roots...)
	if len(w.Labels) > MaxLabels {
		d.fail(s.at("labels"), "has %d labels; at most %d are allowed", len(w.Labels), MaxLabels)
	}
	for _, key := range names(w.Labels) {
		at := s.at("labels", key)
		d.labelKey(at, key)
		if w.Labels[key] != nil {
			d.textTemplate(at, w.Labels[key])
			d.roots(w.Labels[key], roots...)
		}
	}
	if w.Dedupe != nil {
		d.textTemplate(s.at("dedupe"), w.Dedupe)
		d.roots(w.Dedupe, roots...)
		if len(w.Dedupe.Paths()) == 0 && w.Dedupe.isText() {
			d.fail(s.at("dedupe"), "inserts no value: every delivery would count as a repeat of the first")
		}
	}
}

// checkIntake checks what is taken, and how much.
func (w *Webhook) checkIntake(d *decoder, s spot) {
	if w.Batch != "" {
		d.oneOf(s.at("batch"), w.Batch, BatchItem, BatchWhole)
	}
	if w.EmptyBody != "" {
		d.oneOf(s.at("emptyBody"), w.EmptyBody, EmptyBodyRefuse, EmptyBodyObject)
	}
	if w.PublicURL != "" {
		_, err := checkURL(w.PublicURL)
		switch {
		case err != nil:
			d.fail(s.at("publicURL"), "%s", err)
		case strings.ContainsAny(w.PublicURL, "?#"):
			d.fail(s.at("publicURL"), "must have no query and no fragment; the query of each request is used")
		}
	}
	if w.Signature != nil {
		w.Signature.check(d, s.at("signature"), w.PublicURL)
	}
	if r := w.RateLimit; r != nil {
		at := s.at("rateLimit")
		d.require(at.at("perMinute"), r.PerMinute != 0, "how many runs may start in a minute")
		d.between(at.at("perMinute"), r.PerMinute, 0, 1_000_000)
		d.between(at.at("burst"), r.Burst, 0, 1_000_000)
	}
	d.between(s.at("maxInFlight"), w.MaxInFlight, 0, 10_000)
	d.within(s.at("deadline"), w.Deadline, time.Second, maxDeadline)
	d.priority(s.at("priority"), w.Priority)
	if w.MaxBody != 0 && (w.MaxBody < 64 || w.MaxBody > MaxWebhookBody) {
		d.fail(s.at("maxBody"), "%d bytes is outside 64 to %d", w.MaxBody, int64(MaxWebhookBody))
	}
}

// References names what the webhook starts.
func (w *Webhook) References() []Reference {
	if w.Signal != nil {
		return nil
	}
	return target(w.Agent, w.Flow)
}

// textTemplate checks that a template is text.
func (d *decoder) textTemplate(s spot, t *Template) {
	if t.root != nil && !t.root.isText {
		d.fail(s, "expected text, found %s", describe(s.n))
	}
}

func mustTemplate(source string) *Template {
	t, err := ParseTemplate([]byte(source))
	if err != nil {
		panic(fmt.Sprintf("template %s: %v", source, err))
	}
	return t
}
