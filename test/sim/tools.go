package sim

import (
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

// receiveTool is the handler of tools: a call, or a word about one.
func receiveTool(w *World, j *job) {
	w.note(j, "receive")
	if w.flaw == AckBeforeCommit {
		w.bus.remove(j.letter)
	}
	if j.letter.queue == queueControl {
		j.next("commit", control)
		return
	}
	if err := events.Decode(j.letter.Message, &j.call.c); err != nil {
		w.fail(NothingLost, "%v", err)
		return
	}
	j.call.plan = w.scene.defs.toolPlan(j.call.c)
	j.next("load", loadCall)
}

// row is the row of the job's call before anything is known about it.
func (j *job) row() tools.Call {
	c, p := j.call.c, j.call.plan
	return tools.Call{ID: c.CallID, RunID: c.RunID, Namespace: c.Namespace, Tool: c.Tool, ToolDigest: c.ToolDigest, Pool: p.Pool, Args: c.Args,
		ArgsDigest: c.ArgsDigest, MintedKey: c.Key, Key: p.Key, Approval: c.Approval, Rule: c.Rule, Status: tools.CallOpen}
}

func (j *job) effectID() string {
	return tools.EffectID(j.call.c.Namespace, j.call.c.Tool, j.call.plan.Key)
}

// loadCall reads the rows and decides.
func loadCall(w *World, j *job) {
	if j.call.rereads++; j.call.rereads > 8 {
		w.nak(j, time.Second/2)
		return
	}
	st := w.ledger.load(j.call.c, j.effectID(), j.p.name)
	d := tools.Decide(st, j.call.plan, j.call.c, j.p.name, func(id string) tools.Own { return j.p.own[id] })
	j.call.decided = d
	w.note(j, string(d.Do))
	switch d.Do {
	case tools.DoReuse:
		w.fail(Approved, "call %s came for another tool or other arguments", j.call.c.CallID)
	case tools.DoReplay:
		w.answers(j, w.ledger.answered(j.call.c.CallID), fmt.Sprintf("r%d", j.letter.seq))
	case tools.DoRest:
		w.ack(j)
	case tools.DoWait:
		w.nak(j, d.Wait)
	case tools.DoBegin:
		j.call.begin = tools.Begin{Call: j.row(), Read: j.call.plan.Class == tools.ClassRead, Worker: j.p.name, Lease: tools.EffectLease,
			From: d.From, Takeover: d.Takeover, Doubted: d.Doubted, Gated: j.call.plan.Gated, Bind: j.call.plan.Bind}
		if !j.call.begin.Read {
			j.call.begin.EffectID = j.effectID()
		}
		if w.flaw == ActBeforeIntent && !j.call.begin.Read {
			j.call.claim = tools.Claim{Epoch: d.From.Epoch + 1, Attempts: d.From.Attempts + 1}
			j.next("act", askOutside)
			return
		}
		j.next("intent", intent)
	default:
		j.next("commit", commitCall)
	}
}

// commitCall commits what a decision says that does not act.
func commitCall(w *World, j *job) {
	if w.fault("the database refuses", oddsCommit) {
		w.failed(j)
		return
	}
	d := j.call.decided
	var calls []tools.Call
	ok := false
	switch d.Do {
	case tools.DoAnswer:
		var c tools.Call
		c, ok = w.ledger.answer(j.row(), d.Answer)
		calls = []tools.Call{c}
	case tools.DoAttach:
		ok = w.ledger.attach(j.row(), j.effectID())
	case tools.DoDoubt:
		calls, ok = w.ledger.doubt(tools.Doubt{Call: j.row(), EffectID: j.effectID(), From: d.From, Takeover: d.Takeover, Worker: j.p.name, InDoubt: d.InDoubt,
			Error: &events.Problem{Code: tools.CodeUnknownOutcome, Message: "it may have happened"}})
		if !ok {
			w.nak(j, time.Second/2)
			return
		}
	case tools.DoClose:
		calls, ok = w.ledger.close(tools.Close{Call: j.row(), EffectID: j.effectID(), From: d.From, Answer: d.Answer})
	}
	if ok && w.fault("its reply is lost", oddsCommit) { // it is repeated, or comes again
		w.failed(j)
		return
	}
	if !ok {
		j.next("load", loadCall)
		return
	}
	w.answers(j, calls, "")
}

// intent commits, under a new attempt id, that the act begins.
func intent(w *World, j *job) {
	b := &j.call.begin
	if w.fault("the database refuses", oddsCommit) {
		w.failed(j)
		return
	}
	before := b.AttemptID
	b.AttemptID = fmt.Sprintf("t-%d", w.steps)
	j.p.own[b.AttemptID] = tools.OwnRunning
	var began tools.Began
	if b.Read {
		began = w.ledger.beginRead(*b)
	} else {
		began = w.ledger.beginEffect(*b)
	}
	if began.Gate == tools.GateOpen && !began.Lost && w.fault("its reply is lost", oddsCommit) {
		j.p.own[b.AttemptID] = tools.OwnIdle // it may be committed, it has not acted
		delete(j.p.own, before)
		w.failed(j)
		return
	}
	if began.Gate != tools.GateOpen || began.Lost {
		delete(j.p.own, b.AttemptID)
		b.AttemptID = before
	}
	switch {
	case began.Gate != tools.GateOpen:
		w.note(j, "(the yes is "+string(began.Gate)+")")
		j.call.decided = tools.DecideShut(began.Gate, j.call.plan, tools.Decision{Do: tools.DoBegin, From: b.From, Live: j.call.decided.Live || before != "",
			Takeover: b.Takeover, Doubted: b.Doubted})
		j.next("commit", commitCall)
		return
	case began.Lost && b.Takeover:
		w.nak(j, time.Second/2)
		return
	case began.Lost:
		j.next("load", loadCall)
		return
	}
	delete(j.p.own, before)
	j.call.claim = tools.Claim{Epoch: began.Epoch, AttemptID: b.AttemptID, Worker: j.p.name, Attempts: b.From.Attempts + 1, Doubted: b.Doubted}
	j.call.until = w.now.Add(b.Lease)
	j.next("act", askOutside)
}

// askOutside asks the other side, once nothing speaks against it: the beat is fresh, the
// claim is its own and the lease runs. The last look and the act are one step here;
// services/tools/DESIGN.md says what may be between them.
func askOutside(w *World, j *job) {
	b := &j.call.begin
	if w.flaw != FencedAct && !(w.flaw == ActBeforeIntent && !b.Read) {
		if j.slept {
			j.slept = false
			if !w.ledger.holds(tools.Attempt{CallID: j.call.c.CallID, EffectID: b.EffectID, ID: b.AttemptID, Epoch: j.call.claim.Epoch}) {
				delete(j.p.own, b.AttemptID)
				w.drop(j)
				return
			}
		}
		if !w.now.Before(j.call.until) { // it knows that it has not acted
			b.From, b.Takeover = j.call.claim, false
			b.From.Attempts--
			j.next("intent", intent)
			return
		}
	}
	j.call.acted = true
	j.call.outcome = w.world.act(w, j)
	if w.flaw == ActBeforeIntent && !j.call.begin.Read {
		j.next("intent", func(w *World, j *job) {
			b.AttemptID = fmt.Sprintf("t-%d", w.steps)
			began := w.ledger.beginEffect(*b)
			if began.Lost || began.Gate != tools.GateOpen {
				j.next("load", loadCall)
				return
			}
			j.call.claim.Epoch, j.call.claim.AttemptID = began.Epoch, b.AttemptID
			j.next("record", record)
		})
		return
	}
	j.next("record", record)
}

// record commits the outcome. It is tried until the process dies.
func record(w *World, j *job) {
	if w.fault("the database refuses", oddsCommit) {
		return
	}
	b, out := j.call.begin, j.call.outcome
	con := tools.Conclude(out.Verdict, j.call.plan, j.call.claim, out.Error, out.RetryAfter, w.now)
	if con.State == tools.EffectUnknown && con.Error == nil {
		con.Error = &events.Problem{Code: tools.CodeUnknownOutcome, Message: "it may have happened"}
	}
	f := tools.Finish{Attempt: tools.Attempt{CallID: j.call.c.CallID, EffectID: b.EffectID, ID: b.AttemptID, Epoch: j.call.claim.Epoch},
		Worker: j.p.name, Conclusion: con, Acted: out.Verdict != tools.NotSent}
	if con.State == tools.EffectSucceeded {
		f.Result = out.Result
	}
	calls, mine := w.ledger.finish(f)
	if mine && w.fault("its reply is lost", oddsCommit) {
		return // and asked again
	}
	delete(j.p.own, b.AttemptID)
	if !mine {
		w.drop(j)
		return
	}
	if con.State == tools.EffectIntent && con.Wait <= 5*time.Second {
		w.nak(j, con.Wait)
		return
	}
	w.answers(j, calls, "")
}

// answers tells the runs about calls that have an answer, then acknowledges.
func (w *World) answers(j *job, calls []tools.Call, suffix string) {
	var out []events.Message
	for _, c := range calls {
		if c.Status == tools.CallOpen {
			continue
		}
		m, err := tools.Completed(c)
		if err != nil {
			w.fail(NothingLost, "%v", err)
			return
		}
		if suffix != "" {
			m.MsgID += ":" + suffix
		}
		out = append(out, m)
	}
	w.publish(j, out, func(w *World, j *job) { w.ack(j) })
}

// control is a verdict on a doubt, or a run that takes a call back.
func control(w *World, j *job) {
	if w.fault("the database refuses", oddsCommit) {
		w.failed(j)
		return
	}
	var c events.ControlTool
	if err := events.Decode(j.letter.Message, &c); err != nil {
		w.fail(NothingLost, "%v", err)
		return
	}
	suffix := ""
	if j.letter.delivered > 1 {
		suffix = fmt.Sprintf("r%d", j.letter.seq)
	}
	if c.Action == events.ControlRevoke {
		w.answers(j, []tools.Call{w.ledger.revoke(j.letter.ID, c, j.letter.Namespace)}, suffix)
		return
	}
	done := w.ledger.settle(tools.Settle{ID: j.letter.ID, CallID: c.CallID, RunID: c.RunID, Verdict: c.Verdict, Epoch: c.Epoch, Result: c.Result, By: c.By, Reason: c.Reason})
	if done.Effect == nil {
		w.ack(j)
		return
	}
	out, err := tools.SettledMessages(done, c.CallID)
	if err != nil {
		w.fail(NothingLost, "%v", err)
		return
	}
	for i := range out {
		if suffix != "" {
			out[i].MsgID += ":" + suffix
		}
	}
	w.publish(j, out, func(w *World, j *job) { w.ack(j) })
}
