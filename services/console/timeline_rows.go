package console

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// row draws what one row says.
func (d *drawing) row(r TimelineRow) {
	var b rowData
	if len(r.Data) > 0 && json.Unmarshal(r.Data, &b) != nil {
		b = rowData{}
	}
	if d.first.IsZero() {
		d.first = r.At
	}
	switch r.Kind {
	case events.FactStarted:
		if r.Seq == 1 && !b.AcceptedAt.IsZero() && r.At.Sub(b.AcceptedAt) > time.Second && b.Origin == nil {
			d.begin(r.Seq, b.AcceptedAt, BarIdle, "queued", "").end(r.Seq, r.At, BarDone, "until a runner took it")
		}
	case events.FactModelAnswered, events.FactContextCompacted, events.FactModelFailed:
		d.model(r, b)
	case events.FactToolCompleted, events.FactCallback:
		d.completed(r, b)
	case events.FactApprovalDecided:
		d.decided(r, b)
	case events.FactChildrenStarted:
		for _, c := range b.Children {
			d.child(r, c.Item, c.Ref.Name, b.Step)
		}
	case events.FactItemsStarted:
		for _, it := range b.Items {
			d.item(r, b.Step, it)
		}
	case events.FactChildStarted:
		if d.here(b.CallID); b.Detached {
			d.begin(r.Seq, r.At, BarChild, b.Ref.Name, "").end(r.Seq, r.At, BarDone, "started, not waited for")
		} else {
			d.child(r, b.Item, b.Ref.Name, "")
		}
	case events.FactChildCompleted:
		state := BarDone
		if b.Status != events.StatusCompleted {
			state = BarFailed
		}
		d.settle("child/"+b.Item, r.Seq, r.At, state, noteOf(b.Status, b.Error))
	case events.FactSleepStarted:
		if d.here(b.CallID); b.Past.IsZero() {
			d.wait("timer/sleep-"+callPlace(b.CallID), r.Seq, r.At, BarIdle, "sleeps")
		}
	case events.FactTimerFired:
		d.fired(r, b)
	case events.FactQuestionAsked:
		d.here(b.CallID)
		d.wait("approval/"+b.ApprovalID, r.Seq, r.At, BarPerson, "question to a person")
	case events.FactSignalTaken:
		d.settle("signal/"+callPlace(b.CallID), r.Seq, r.At, BarDone, "")
	case events.FactPlanChanged, events.FactFactsChanged:
		d.here(b.CallID)
	case events.FactTurnAwaited:
		d.wait("timer/turn-"+strconv.FormatInt(r.Seq, 10), r.Seq, r.At, BarIdle, "turn of "+b.Model)
	case events.FactItemRetried:
		d.wait(fmt.Sprintf("timer/again-%s-%d-%d", b.Step, b.Index, b.Attempt), r.Seq, r.At, BarIdle, b.Step+"/"+strconv.Itoa(b.Index)+" again")
	case events.FactSlotsAwaited:
		d.wait("slots", r.Seq, r.At, BarIdle, "place under "+b.Key)
	case events.FactSlotsTaken:
		d.settle("slots", r.Seq, r.At, BarDone, "")
	case events.FactPaused:
		d.wait("pause", r.Seq, r.At, BarIdle, "paused").Note = strings.TrimSpace("by " + b.By)
	case events.FactAttention:
		if len(d.calls)+len(d.waits) == 0 && !d.last.At.IsZero() && r.At.Sub(d.last.At) > time.Second {
			d.begin(r.Seq, d.last.At, BarLost, "model", "").end(r.Seq, r.At, BarFailed, "no answer")
		}
		d.wait("pause", r.Seq, r.At, BarIdle, "parked").Note = codeOf(b.Error)
	case events.FactResumed, events.FactBudgetRaised:
		d.settle("pause", 0, r.At, BarDone, "")
		for _, c := range b.Release {
			d.asked(r, c, "")
		}
	}
	if events.Ended(endStatus(r.Kind)) {
		d.ended = true
		for _, w := range d.waits {
			w.end(0, r.At, BarRefused, "")
		}
		for _, c := range d.calls {
			c.end(0, r.At, BarOpen, "")
		}
	}
	d.last = r
}

func endStatus(kind string) string {
	switch kind {
	case events.FactCompleted:
		return events.StatusCompleted
	case events.FactFailed:
		return events.StatusFailed
	case events.FactCancelled:
		return events.StatusCancelled
	case events.FactExpired:
		return events.StatusExpired
	}
	return ""
}

// model draws a model call, and before it the work of whoever had it and went away.
func (d *drawing) model(r TimelineRow, b rowData) {
	owed := d.last.At
	if owed.IsZero() {
		owed = r.At.Add(-time.Duration(b.DurationMs) * time.Millisecond)
	}
	from := r.At.Add(-time.Duration(b.DurationMs) * time.Millisecond)
	if r.Kind == events.FactModelFailed || from.Before(owed) {
		from = owed
	}
	name := b.ModelName
	if name == "" {
		name = b.Model
	}
	if name == "" {
		name = "model"
	}
	again := d.again(r, b)
	if again {
		d.begin(r.Seq, owed, BarLost, name, "").end(r.Seq, from, BarFailed, "lost")
		d.cuts = append(d.cuts, Cut{At: from, Lost: from.Sub(owed), Worker: b.Worker})
	}
	bar := d.begin(r.Seq, from, BarModel, name, "")
	bar.Cost = b.CostMicroUSD
	state, note := BarDone, ""
	switch {
	case r.Kind == events.FactModelFailed && b.Unasked:
		state, note = BarRefused, "not asked: "+b.Code
	case r.Kind == events.FactModelFailed:
		state, note = BarFailed, b.Code
		if b.NextModel != "" {
			note += ", " + b.NextModel + " goes on"
		}
	case r.Kind == events.FactContextCompacted:
		note = "summary"
	case again:
		note = "begun again"
	}
	bar.end(r.Seq, r.At, state, note)
	if r.Kind == events.FactModelFailed && b.RetryAt != nil {
		d.wait("timer/retry-"+strconv.FormatInt(r.Seq, 10), r.Seq, r.At, BarIdle, "before it is asked again")
	}
	for _, c := range b.Calls {
		d.asked(r, c, "")
	}
}

// again says whether somebody else had begun the call: a claim has a number of its own,
// and the call that follows a kept claim has its number and its cause. What was given
// back in good order looks the same.
func (d *drawing) again(r TimelineRow, b rowData) bool {
	before, cause := d.epoch, d.cause
	d.epoch, d.cause = b.Epoch, r.Cause
	switch {
	case b.Epoch == 0 || before == 0 && d.last.Seq > 1:
		return false // of rows before these nothing is known
	case before > 0 && cause == r.Cause:
		return b.Epoch > before
	}
	return b.Epoch > before+1
}

// asked draws a call from where it was asked for.
func (d *drawing) asked(r TimelineRow, c askedRow, step string) {
	origin := c.Tool
	switch c.Route {
	case events.RouteSend:
		if prior := d.calls[c.CallID]; prior != nil && !prior.ended {
			return
		}
		d.calls[c.CallID] = d.begin(r.Seq, r.At, d.kindOf(c.Tool), c.Tool, origin)
	case events.RouteAsk:
		name := "approve " + c.Tool
		if c.Step != nil && c.Step.Question != "" {
			name = "approve " + step
		}
		b := d.wait("approval/"+c.ApprovalID, r.Seq, r.At, BarPerson, name)
		b.origin = origin
	case events.RouteAnswer:
		d.begin(r.Seq, r.At, d.kindOf(c.Tool), c.Tool, origin).end(r.Seq, r.At, BarRefused, codeOf(c.Problem))
	case events.RouteWait:
		name := "signal"
		if c.Wait != nil {
			name = "signal " + c.Wait.Name
		}
		d.wait("signal/"+callPlace(c.CallID), r.Seq, r.At, BarIdle, name)
	case events.RouteHere:
		b := d.begin(r.Seq, r.At, BarRead, c.Tool, origin)
		b.end(r.Seq, r.At, BarDone, "")
		d.calls[c.CallID] = b
	}
}

// here forgets a call that the runner made itself, once its row has come.
func (d *drawing) here(call string) { delete(d.calls, call) }

func (d *drawing) item(r TimelineRow, step string, it itemRow) {
	switch {
	case it.Child != nil:
		d.child(r, it.Item, it.Child.Ref.Name, step)
	case it.Call != nil:
		d.asked(r, *it.Call, step)
	case !it.Until.IsZero():
		d.wait("timer/sleep-"+strings.ReplaceAll(it.Item, "/", "-"), r.Seq, r.At, BarIdle, it.Item+" sleeps")
	}
}

func (d *drawing) child(r TimelineRow, item, name, step string) {
	b := d.wait("child/"+item, r.Seq, r.At, BarChild, name)
	if b.origin = step; step != "" {
		b.Name = item
	}
}

// completed ends a call, or says that nobody knows whether it happened.
func (d *drawing) completed(r TimelineRow, b rowData) {
	c := d.calls[b.CallID]
	if c == nil {
		if r.Kind == events.FactCallback {
			c = d.begin(r.Seq, r.At, BarWrite, "posts the end", "")
		} else {
			c = d.begin(r.Seq, r.At, d.kindOf(b.Tool), b.Tool, "")
		}
	}
	delete(d.calls, b.CallID)
	note := codeOf(b.Error)
	if b.Replayed {
		note = "from the ledger"
	}
	if b.Settled != "" {
		note = "settled by " + b.Settled
		d.settle("doubt/"+b.CallID, r.Seq, r.At, BarDone, note)
	}
	switch b.Status {
	case events.CallSucceeded:
		c.end(r.Seq, r.At, BarDone, note)
	case events.CallUnknown:
		c.end(r.Seq, r.At, BarUnknown, "nobody knows whether it happened")
		if b.InDoubt == "ask" {
			w := d.wait("doubt/"+b.CallID, r.Seq, r.At, BarPerson, "did "+b.Tool+" happen?")
			w.origin = "doubt of " + b.Tool
		}
	case events.CallExpired, events.CallRevoked:
		c.end(r.Seq, r.At, BarRefused, b.Status)
	default:
		c.end(r.Seq, r.At, BarFailed, note)
	}
}

// decided ends a wait for a person; after a yes the call begins.
func (d *drawing) decided(r TimelineRow, b rowData) {
	state, note := BarDone, b.Decision
	if b.By != "" {
		note += " by " + b.By
	}
	if b.Decision != events.Approve && b.Kind == events.ApprovalAction {
		state = BarRefused
	}
	if b.Kind == events.ApprovalDoubt {
		d.settle("doubt/"+b.CallID, r.Seq, r.At, BarDone, note)
		return
	}
	w := d.waits["approval/"+b.ApprovalID]
	d.settle("approval/"+b.ApprovalID, r.Seq, r.At, state, note)
	if b.Kind == events.ApprovalAction && b.Decision == events.Approve {
		tool := ""
		if w != nil {
			tool = w.origin
		}
		if tool == "" {
			return // asked before these rows, or a question alone
		}
		c := d.begin(r.Seq, r.At, d.kindOf(tool), tool, tool)
		if b.Edited {
			c.Note = "changed by " + b.By
		}
		d.calls[b.CallID] = c
	}
}

// fired ends what waited for a time.
func (d *drawing) fired(r TimelineRow, b rowData) {
	if call, ok := strings.CutPrefix(b.Timer, "wait-"); ok {
		d.settle("signal/"+call, r.Seq, r.At, BarFailed, "none came")
		return
	}
	d.settle("timer/"+b.Timer, r.Seq, r.At, BarDone, "")
}

// callPlace is what is left of a call's id without the run's; timers are named by it.
func callPlace(call string) string {
	return call[min(len(call), len("00000000-0000-0000-0000-000000000000-")):]
}

func codeOf(p *events.Problem) string {
	if p == nil {
		return ""
	}
	return p.Code
}

func noteOf(status string, p *events.Problem) string {
	switch {
	case p != nil && p.Code != "":
		return p.Code
	case status != events.StatusCompleted:
		return status
	}
	return ""
}
