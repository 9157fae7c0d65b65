package sim

import (
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

// ledger is the schema of tools: what services/tools/postgres commits, under the
// same guards.
type ledger struct {
	w        *World
	calls    map[events.CallID]*callRow
	order    []events.CallID
	effects  map[string]*effectRow
	keys     []string                 // of effects, in order
	receipts map[string]bool          // attempt ids with an outcome
	controls map[string]*controlTaken // ids of verdicts and revokes
	begun    map[string]time.Time     // attempt id → when its intent was committed
}

type callRow struct {
	tools.Call
	wakeAt time.Time
}

type effectRow struct {
	tools.Effect
	wakeAt time.Time
}

type controlTaken struct{ applied bool }

func newLedger(w *World) *ledger {
	return &ledger{w: w, calls: map[events.CallID]*callRow{}, effects: map[string]*effectRow{}, receipts: map[string]bool{},
		controls: map[string]*controlTaken{}, begun: map[string]time.Time{}}
}

// load reads what a decision about c looks at.
func (g *ledger) load(c events.CallTool, effectID, worker string) tools.State {
	st := tools.State{Now: g.w.now, Self: g.w.beatOf(worker)}
	owner := ""
	if row := g.calls[c.CallID]; row != nil {
		call := row.Call
		st.Call, owner = &call, call.Claim.Worker
	}
	if row := g.effects[effectID]; row != nil {
		e := row.Effect
		st.Effect = &e
		if e.Claim.Worker != "" {
			owner = e.Claim.Worker
		}
	}
	st.Owner = g.w.beatOf(owner)
	return st
}

// dead is the guard of every statement that takes an attempt from its owner.
func (g *ledger) dead(c tools.Claim, taker string) bool {
	return c.LeaseUntil.Before(g.w.now) && g.w.mayTake(taker, c.Worker)
}

// gate is what the statement that commits an intent says about the yes.
func (g *ledger) gate(b tools.Begin) tools.Gate {
	if !b.Gated || g.w.flaw == NoYesAtIntent {
		return tools.GateOpen
	}
	if b.Call.Approval == nil {
		return tools.GateMissing
	}
	return g.w.asked.gate(b.Call.Approval.ID, b.Call.ID, b.Bind)
}

// open makes or keeps a call's row while it is open.
func (g *ledger) open(c tools.Call, effectID string, acting bool) bool {
	row := g.calls[c.ID]
	if row == nil {
		row = &callRow{Call: c}
		row.Status = tools.CallOpen
		g.calls[c.ID] = row
		g.order = append(g.order, c.ID)
	} else if row.Status != tools.CallOpen {
		return false
	}
	row.EffectID, row.Acting, row.UpdatedAt = effectID, row.Acting || acting, g.w.now
	if c.Approval != nil {
		row.Approval = c.Approval
	}
	return true
}

// beginEffect commits an intent.
func (g *ledger) beginEffect(b tools.Begin) tools.Began {
	began := tools.Began{Gate: g.gate(b)}
	if began.Gate != tools.GateOpen {
		return began
	}
	e := g.effects[b.EffectID]
	fenced := g.w.flaw == FencedAct // the claim that the decision saw is not asked for
	switch {
	case e == nil && b.From.Epoch != 0,
		e != nil && !fenced && (e.Claim.Epoch != b.From.Epoch || e.Claim.AttemptID != b.From.AttemptID),
		e != nil && !fenced && e.State != tools.EffectIntent && e.State != tools.EffectFailed,
		e != nil && e.ArgsDigest != b.Call.ArgsDigest,
		e != nil && !fenced && b.Takeover && !g.dead(e.Claim, b.Worker):
		began.Lost = e == nil || e.Claim.AttemptID != b.AttemptID
		if !began.Lost {
			began.Epoch = e.Claim.Epoch
		}
		return began
	}
	if row := g.calls[b.Call.ID]; row != nil && row.Status != tools.CallOpen {
		began.Lost = true
		return began
	}
	if e == nil {
		e = &effectRow{Effect: tools.Effect{ID: b.EffectID, Namespace: b.Call.Namespace, Tool: b.Call.Tool, Key: b.Call.Key,
			CallID: b.Call.ID, RunID: b.Call.RunID, Args: b.Call.Args, ArgsDigest: b.Call.ArgsDigest, CreatedAt: g.w.now}}
		g.effects[b.EffectID] = e
		g.keys = append(g.keys, b.EffectID)
	} else if e.State == tools.EffectFailed {
		e.CallID, e.RunID = b.Call.ID, b.Call.RunID
	}
	e.State, e.InDoubt, e.Result, e.Error, e.SettledBy, e.wakeAt = tools.EffectIntent, "", nil, nil, "", time.Time{}
	e.Claim = tools.Claim{Epoch: e.Claim.Epoch + 1, AttemptID: b.AttemptID, Worker: b.Worker, LeaseUntil: g.w.now.Add(b.Lease),
		Attempts: b.From.Attempts + 1, Doubted: b.Doubted}
	g.open(b.Call, b.EffectID, true)
	g.begun[b.AttemptID] = g.w.now
	began.Epoch = e.Claim.Epoch
	return began
}

// beginRead claims a read on the call's own row.
func (g *ledger) beginRead(b tools.Begin) tools.Began {
	began := tools.Began{Gate: g.gate(b)}
	if began.Gate != tools.GateOpen {
		return began
	}
	row := g.calls[b.Call.ID]
	if row != nil && (row.Status != tools.CallOpen || row.Claim.Epoch != b.From.Epoch || row.Claim.AttemptID != b.From.AttemptID ||
		b.Takeover && !g.dead(row.Claim, b.Worker)) {
		if began.Lost = row.Claim.AttemptID != b.AttemptID || row.Status != tools.CallOpen; !began.Lost {
			began.Epoch = row.Claim.Epoch
		}
		return began
	}
	if row == nil {
		row = &callRow{Call: b.Call}
		row.Status = tools.CallOpen
		g.calls[b.Call.ID] = row
		g.order = append(g.order, b.Call.ID)
	}
	row.Claim = tools.Claim{Epoch: row.Claim.Epoch + 1, AttemptID: b.AttemptID, Worker: b.Worker, LeaseUntil: g.w.now.Add(b.Lease), Attempts: b.From.Attempts + 1}
	row.wakeAt, row.UpdatedAt = time.Time{}, g.w.now
	g.begun[b.AttemptID] = g.w.now
	began.Epoch = row.Claim.Epoch
	return began
}

// holds reports whether an attempt still owns its claim.
func (g *ledger) holds(a tools.Attempt) bool {
	if a.EffectID == "" {
		row := g.calls[a.CallID]
		return row != nil && row.Claim.Epoch == a.Epoch && row.Claim.AttemptID == a.ID && row.Status == tools.CallOpen
	}
	e := g.effects[a.EffectID]
	return e != nil && e.Claim.Epoch == a.Epoch && e.Claim.AttemptID == a.ID && e.State == tools.EffectIntent
}

// wakeSlack is how long a sweep leaves a call alone whose message comes back by
// itself.
const wakeSlack = 15 * time.Second

func wakeOf(c tools.Conclusion) time.Duration {
	if c.Wait <= 5*time.Second && c.InDoubt != tools.DoubtProbe && !c.Unasked {
		return c.Wait + wakeSlack
	}
	return c.Wait
}

// finish records an outcome; mine is false when a newer epoch owns the claim.
func (g *ledger) finish(f tools.Finish) (answered []tools.Call, mine bool) {
	if f.EffectID == "" {
		return g.finishRead(f)
	}
	e, con := g.effects[f.EffectID], f.Conclusion
	mine = e != nil && e.Claim.Epoch == f.Epoch && e.Claim.AttemptID == f.ID &&
		(e.State == tools.EffectIntent || e.State == tools.EffectUnknown && e.SettledBy == "" && (con.State == tools.EffectSucceeded || con.State == tools.EffectFailed))
	if !mine {
		if g.receipts[f.ID] { // an earlier commit of ours whose reply was lost
			return g.callsOf(f.EffectID), true
		}
		return nil, false
	}
	g.receipts[f.ID] = true
	e.State, e.InDoubt, e.Result, e.Error = con.State, con.InDoubt, f.Result, con.Error
	e.Claim.Doubted = con.Doubted
	if con.State == tools.EffectIntent {
		e.Claim.AttemptID, e.Claim.Worker, e.Claim.LeaseUntil = "", "", time.Time{}
		e.Claim.NextAttempt, e.wakeAt = g.w.now.Add(con.Wait), g.w.now.Add(wakeOf(con))
		if row := g.calls[f.CallID]; row != nil && row.Status == tools.CallOpen {
			row.Acting = con.Doubted
		}
		return nil, true
	}
	g.answerAll(f.EffectID, con.State, f.Epoch, con.InDoubt, "", f.CallID)
	g.w.onEffect(e)
	return g.callsOf(f.EffectID), true
}

func (g *ledger) finishRead(f tools.Finish) (answered []tools.Call, mine bool) {
	row, con := g.calls[f.CallID], f.Conclusion
	if row == nil || row.Claim.Epoch != f.Epoch || row.Claim.AttemptID != f.ID {
		return nil, false
	}
	if row.Status != tools.CallOpen {
		return []tools.Call{row.Call}, true
	}
	row.Epoch, row.Result, row.Error, row.UpdatedAt, row.AnsweredBy = row.Claim.Epoch, f.Result, con.Error, g.w.now, f.Worker
	if con.State == tools.EffectIntent {
		row.Claim.AttemptID, row.Claim.Worker = "", ""
		row.Claim.NextAttempt, row.wakeAt = g.w.now.Add(con.Wait), g.w.now.Add(wakeOf(con))
		return nil, true
	}
	row.Status = con.State
	return []tools.Call{row.Call}, true
}

// answerAll answers every call that waits for an effect.
func (g *ledger) answerAll(effectID, status string, epoch int64, inDoubt, settledBy string, acted events.CallID) {
	e := g.effects[effectID]
	for _, id := range g.order {
		row := g.calls[id]
		if row.EffectID != effectID || row.Status != tools.CallOpen && row.Status != events.CallUnknown {
			continue
		}
		row.Status, row.Epoch, row.Result, row.Error, row.InDoubt = status, epoch, e.Result, e.Error, inDoubt
		row.SettledBy, row.Acting, row.Replayed, row.UpdatedAt = settledBy, false, id != acted, g.w.now
	}
}

// callsOf are the calls of an effect.
func (g *ledger) callsOf(effectID string) (out []tools.Call) {
	for _, id := range g.order {
		if g.calls[id].EffectID == effectID {
			out = append(out, g.calls[id].Call)
		}
	}
	return out
}

// answered are a call and, when it opened an effect, the others of it.
func (g *ledger) answered(id events.CallID) (out []tools.Call) {
	row := g.calls[id]
	if row == nil {
		return nil
	}
	if e := g.effects[row.EffectID]; e != nil && e.CallID == id {
		return g.callsOf(e.ID)
	}
	return []tools.Call{row.Call}
}

// answer records an answer for a call that does not act.
func (g *ledger) answer(c tools.Call, a tools.Answer) (tools.Call, bool) {
	if a.EffectID != "" {
		if e := g.effects[a.EffectID]; e == nil || e.State != a.Status || e.Claim.Epoch != a.Epoch {
			return tools.Call{}, false
		}
	}
	row := g.calls[c.ID]
	switch {
	case row == nil:
		row = &callRow{Call: c}
		g.calls[c.ID] = row
		g.order = append(g.order, c.ID)
	case row.Status != tools.CallOpen || row.Acting && a.EffectID == "":
		return row.Call, true
	}
	if a.EffectID != "" {
		row.EffectID = a.EffectID
	}
	row.Status, row.Epoch, row.Result, row.Error, row.InDoubt, row.Replayed = a.Status, a.Epoch, a.Result, a.Error, a.InDoubt, a.Replayed
	row.Acting, row.wakeAt, row.UpdatedAt = false, time.Time{}, g.w.now
	return row.Call, true
}

// attach records a call whose effect another call acts on.
func (g *ledger) attach(c tools.Call, effectID string) bool {
	e := g.effects[effectID]
	return e != nil && (e.State == tools.EffectIntent || e.Probing()) && g.open(c, effectID, false)
}

// doubt gives an intent up whose owner may have acted.
func (g *ledger) doubt(d tools.Doubt) ([]tools.Call, bool) {
	e := g.effects[d.EffectID]
	if e == nil || e.State != tools.EffectIntent || e.Claim.Epoch != d.From.Epoch || e.Claim.AttemptID != d.From.AttemptID ||
		d.Takeover && !g.dead(e.Claim, d.Worker) {
		return nil, false
	}
	e.State, e.InDoubt, e.Error, e.Claim.Doubted, e.wakeAt = tools.EffectUnknown, d.InDoubt, d.Error, true, time.Time{}
	g.open(d.Call, d.EffectID, false)
	g.answerAll(d.EffectID, events.CallUnknown, d.From.Epoch, d.InDoubt, "", d.Call.ID)
	g.w.onEffect(e)
	return g.callsOf(d.EffectID), true
}

// close ends an intent that surely has not acted.
func (g *ledger) close(c tools.Close) ([]tools.Call, bool) {
	e := g.effects[c.EffectID]
	if e == nil || e.State != tools.EffectIntent || e.Claim.Epoch != c.From.Epoch || e.Claim.AttemptID != c.From.AttemptID || e.Claim.Doubted {
		return nil, false
	}
	e.State, e.Error, e.wakeAt = tools.EffectFailed, c.Answer.Error, time.Time{}
	e.Claim.AttemptID, e.Claim.Worker, e.Claim.LeaseUntil = "", "", time.Time{}
	if row := g.calls[c.Call.ID]; row != nil && row.Status == tools.CallOpen {
		row.Acting = false
	}
	a := c.Answer
	a.Epoch = c.From.Epoch
	own, _ := g.answer(c.Call, a)
	g.answerAll(c.EffectID, events.CallFailed, c.From.Epoch, "", "", c.Call.ID)
	g.w.onEffect(e)
	return append(g.callsOf(c.EffectID), own), true
}

// settle applies a verdict on a doubt, once per id.
func (g *ledger) settle(v tools.Settle) (done tools.Settled) {
	taken := g.controls[v.ID]
	done.Known = taken != nil
	if taken == nil {
		taken = &controlTaken{}
		g.controls[v.ID] = taken
	}
	row := g.calls[v.CallID]
	if row == nil || g.effects[row.EffectID] == nil {
		return done
	}
	e := g.effects[row.EffectID]
	switch {
	case done.Known:
		done.Applied = taken.applied
	case e.Open() && (v.Epoch == 0 || v.Epoch == e.Claim.Epoch):
		g.apply(e, v)
		done.Applied, taken.applied = true, true
	case e.State == tools.EffectSucceeded || e.State == tools.EffectUnknown && !e.Open():
		g.answerAll(e.ID, e.State, e.Claim.Epoch, e.InDoubt, e.SettledBy, e.CallID)
	}
	stands := e.Effect
	done.Effect, done.Calls = &stands, g.callsOf(e.ID)
	return done
}

func (g *ledger) apply(e *effectRow, v tools.Settle) {
	e.Claim = tools.Claim{Epoch: e.Claim.Epoch + 1}
	e.SettledBy, e.InDoubt, e.Error, e.Result, e.wakeAt = v.By, "", nil, nil, time.Time{}
	switch v.Verdict {
	case events.Happened:
		e.State, e.Result = tools.EffectSucceeded, []byte(`{"note":"a person confirmed it"}`)
	case events.NotHappened:
		e.State, e.Error = tools.EffectFailed, &events.Problem{Code: tools.CodeNotHappened, Message: "a person says so"}
	default:
		e.State, e.InDoubt, e.Claim.Doubted = tools.EffectUnknown, tools.DoubtFail, true
	}
	if e.State == tools.EffectFailed {
		for _, id := range g.order {
			if row := g.calls[id]; row.EffectID == e.ID && (row.Status == tools.CallOpen || row.Status == events.CallUnknown) {
				row.Status, row.Acting, row.Error, row.InDoubt, row.Result, row.UpdatedAt = tools.CallOpen, false, nil, "", nil, g.w.now
			}
		}
	} else {
		g.answerAll(e.ID, e.State, e.Claim.Epoch, e.InDoubt, v.By, e.CallID)
	}
	g.w.onEffect(e)
}

// revoke takes a call back unless its act has begun.
func (g *ledger) revoke(id string, c events.ControlTool, namespace string) tools.Call {
	if g.controls[id] == nil {
		g.controls[id] = &controlTaken{}
	}
	row := g.calls[c.CallID]
	why := &events.Problem{Code: tools.CodeRevoked, Message: "the run took the call back before it began"}
	switch {
	case row == nil:
		row = &callRow{Call: tools.Call{ID: c.CallID, RunID: c.RunID, Namespace: namespace, Status: events.CallRevoked, Error: why, UpdatedAt: g.w.now}}
		g.calls[c.CallID] = row
		g.order = append(g.order, c.CallID)
		return row.Call
	case row.Status != tools.CallOpen || row.Acting:
		return row.Call
	}
	row.Status, row.Error, row.Epoch, row.wakeAt, row.UpdatedAt = events.CallRevoked, why, 0, time.Time{}, g.w.now
	e := g.effects[row.EffectID]
	if e == nil || e.State != tools.EffectIntent || e.Claim.AttemptID != "" {
		return row.Call
	}
	for _, other := range g.order { // only the opener begins: another that wants the same inherits it
		if x := g.calls[other]; x.EffectID == e.ID && x.Status == tools.CallOpen {
			if e.CallID == c.CallID {
				e.CallID, e.RunID = x.ID, x.RunID
				if e.wakeAt.IsZero() {
					e.wakeAt = e.Claim.NextAttempt
				}
			}
			return row.Call
		}
	}
	if !e.Claim.Doubted {
		e.State, e.Error, e.wakeAt = tools.EffectFailed, why, time.Time{}
		g.w.onEffect(e)
	}
	return row.Call
}

// nextDue is when a call is to be sent again; zero: none.
func (g *ledger) nextDue() (at time.Time) {
	for _, id := range g.keys {
		at = earlier(at, g.effects[id].wakeAt)
	}
	for _, id := range g.order {
		at = earlier(at, g.calls[id].wakeAt)
	}
	return at
}

// due takes the calls whose next attempt nobody has begun.
func (g *ledger) due() (out []tools.Call) {
	now := g.w.now
	for _, key := range g.keys {
		e := g.effects[key]
		if e.wakeAt.IsZero() || e.wakeAt.After(now) {
			continue
		}
		e.wakeAt = now.Add(30 * time.Second)
		var take *callRow
		for _, id := range g.order {
			if row := g.calls[id]; row.EffectID == key && row.Status == tools.CallOpen && (take == nil || id == e.CallID) {
				take = row
			}
		}
		if take != nil {
			out = append(out, take.Call)
		} else {
			e.wakeAt = time.Time{}
		}
	}
	for _, id := range g.order {
		row := g.calls[id]
		if row.wakeAt.IsZero() || row.wakeAt.After(now) {
			continue
		}
		row.wakeAt = time.Time{}
		if row.Status == tools.CallOpen {
			row.wakeAt = now.Add(30 * time.Second)
			out = append(out, row.Call)
		}
	}
	return out
}

// earlier is the earlier of two times of which zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
