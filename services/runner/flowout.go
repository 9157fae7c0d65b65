package runner

import (
	"strconv"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// items sends what the items of a row begin with. A sleep sends nothing.
func (o *outbox) items(b events.ItemsStarted) {
	for _, it := range b.Items {
		switch {
		case it.Child != nil:
			o.startChild(*it.Child)
		case it.Call != nil:
			o.calls([]events.AskedCall{*it.Call})
		}
	}
}

// takeBackCalls takes back the calls and questions of a flow that failed while
// they were open: what has not begun does not begin. Outcomes that come later
// are late results; the ledger has them in any case.
func (o *outbox) takeBackCalls() {
	if o.s.Cancel != nil {
		return
	}
	for _, id := range sortedKeys(o.s.Calls) {
		switch c := o.s.Calls[id]; c.State {
		case callSent:
			o.put(events.ToolControlSubject(id), "revoke:"+string(id), events.TypeControlTool, string(id),
				events.ControlTool{CallID: id, RunID: o.s.RunID, Action: events.ControlRevoke, By: "run " + string(o.s.RunID), Reason: "the run ended"})
		case callAsked:
			o.withdraw(c.ApprovalID, "the run ended")
		case callQuestion:
			o.withdraw(c.Asked.ApprovalID, "the run ended")
		case callDoubt:
			o.withdraw(c.Doubt, "the run ended")
		}
	}
}

// wasItem reports whether a step of the flow has started an item of that name.
func (s *State) wasItem(item string) bool {
	parts := strings.Split(item, "/")
	if len(parts) < 2 {
		return false
	}
	st, i := s.Steps[parts[0]], -1
	if n, err := strconv.Atoi(parts[1]); err == nil {
		i = n
	}
	return st != nil && i >= 0 && i < st.Total
}
