package spec

import (
	"slices"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Notify says what people are told about runs, and where.
type Notify struct {
	// On lists reasons of pkg/events: events.NoticeReasons. Of one run each is told
	// once.
	On      []string `json:"on"`
	Channel string   `json:"channel"` // name of a Channel
}

func (n *Notify) check(d *decoder, s spot) {
	if n == nil {
		return
	}
	if d.require(s.at("channel"), n.Channel != "", "the name of a Channel"); n.Channel != "" {
		d.name(s.at("channel"), n.Channel)
	}
	d.require(s.at("on"), len(n.On) > 0, "at least one reason, like failed or needs_attention")
	for i, reason := range n.On {
		d.oneOf(s.at("on", i), reason, events.NoticeReasons...)
		if contains(n.On[:i], reason) {
			d.fail(s.at("on", i), "%q stands here twice", shorten(reason))
		}
	}
}

// To is the name of the channel that is told for the reason; empty for none.
func (n *Notify) To(reason string) string {
	if n == nil || !slices.Contains(n.On, reason) {
		return ""
	}
	return n.Channel
}

func (n *Notify) references() []Reference {
	if n == nil {
		return nil
	}
	return channelReference("notify.channel", n.Channel)
}

// Approvals says how people are asked: every question of a run, whether a call may
// run, whether it happened, or what the agent asks, is told in the channel, whose
// people may decide there. Policy holds for each call of a tool beside the tool's
// own, and who may decide is also asked of a flow's steps.
type Approvals struct {
	Channel string    `json:"channel,omitempty"` // name of a Channel; empty: nobody is told
	Policy  *Approval `json:"policy,omitempty"`  // nil: the tools' own policies alone
}

func (a *Approvals) check(d *decoder, s spot) {
	if a == nil {
		return
	}
	if d.require(s.at("channel"), a.Channel != "" || a.Policy != nil, "the name of a Channel, or say who is asked about what with policy"); a.Channel != "" {
		d.name(s.at("channel"), a.Channel)
	}
	if a.Policy != nil {
		a.Policy.check(d, s.at("policy"))
		if r := a.Policy.Rule; r != nil && r.Form != nil {
			d.fail(s.at("policy", "form"), "belongs to a tool, whose arguments people fill in")
		}
	}
}

// To is the name of the channel; empty for none.
func (a *Approvals) To() string {
	if a == nil {
		return ""
	}
	return a.Channel
}

func (a *Approvals) references() []Reference {
	refs := channelReference("approvals.channel", a.To())
	if a != nil && a.Policy != nil {
		refs = append(refs, a.Policy.references("approvals.policy")...)
	}
	return refs
}
