package approvals

import (
	"slices"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// toldIn is r as a message to a whole channel may tell it. What a rule's deciders alone
// may read goes to a room when one of its people may, because the room was made for
// asking them; to a program when all of its people may, because nobody else says who
// reads behind it; and to an address that stands for nobody not at all.
func (r Request) toldIn(c *spec.Channel) Request {
	if r.Rule == nil || len(r.Rule.Deciders) == 0 {
		return r
	}
	may := func(p spec.Person) bool { return MayRead(r, personOf(p)) }
	switch {
	case c.Slack != nil && slices.ContainsFunc(c.People, may):
		return r
	case c.Webhook != nil && len(c.People) > 0 && !slices.ContainsFunc(c.People, func(p spec.Person) bool { return !may(p) }):
		return r
	}
	return r.SeenBy(Person{})
}

// tellHidden is how a request is told where nobody may read what it is about.
func tellHidden(r Request) Message {
	m := Message{
		ID: string(r.ID) + "-ask", Type: "holdfast.approval", At: r.CreatedAt, Title: Visible(r.Title(), maxTitle), Hint: "holdfast approvals show " + string(r.ID),
		Data: asked{ApprovalID: r.ID, Namespace: r.Namespace, Kind: r.Kind, State: r.State, Summary: r.Summary, RunID: r.RunID, Agent: r.Agent, Tool: r.Tool, ExpiresAt: r.ExpiresAt, Hidden: true},
	}
	kind := "a call"
	switch r.Kind {
	case events.ApprovalDoubt:
		kind = "whether a call happened"
	case events.ApprovalQuestion:
		kind = "a question"
	}
	m.Facts = []Shown{
		{"asks about", kind + "; what exactly is for who may decide it"}, {"decided by", Visible(r.Rule.String(), 1000)},
		{"tool", Visible(r.Tool, 200)}, {"agent", Visible(r.Agent, 200)}, {"run", string(r.RunID)}, {"expires", r.ExpiresAt.UTC().Format("2006-01-02 15:04 UTC")},
	}
	return m
}
