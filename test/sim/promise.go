package sim

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
	"github.com/holdfast-run/holdfast/services/runner"
	"github.com/holdfast-run/holdfast/services/tools"
)

// Promise is one thing that must hold after every step, or at rest.
type Promise string

// The promises, in the order of the README.
const (
	ExactlyOnce    Promise = "what was answered takes effect exactly once"
	NoneAskedAgain Promise = "no recorded answer or result is asked for again"
	AtMostOnce     Promise = "a write happens at most once per key, or its doubt is said"
	Approved       Promise = "what a person approved is what runs, while the yes is valid"
	LastWord       Promise = "a run stands still or goes on, and a ceiling is, as the last word says"
	BudgetHolds    Promise = "a budget is a ceiling"
	EveryChange    Promise = "every change is a row, numbered without gaps, and its event"
	RecordedFirst  Promise = "nothing goes out that is not recorded"
	NothingLost    Promise = "at rest every run has ended"
)

// promises is what the checks remember. They look at rows and at the other side, and
// believe nothing that the product counts itself.
type promises struct {
	started  map[events.RunID]int
	signals  map[string]bool
	asked    map[events.CallID]events.AskedCall
	results  map[events.CallID]string
	answers  map[events.RunID]int64 // row of the newest outcome of a model call
	spent    map[events.RunID][2]int64
	counted  map[events.CallID]bool
	ceiling  map[events.RunID]int64
	decided  map[events.ApprovalID]string
	approved map[events.CallID]events.ApprovalDecision
}

func newPromises() promises {
	return promises{started: map[events.RunID]int{}, signals: map[string]bool{}, asked: map[events.CallID]events.AskedCall{}, results: map[events.CallID]string{},
		answers: map[events.RunID]int64{}, spent: map[events.RunID][2]int64{}, counted: map[events.CallID]bool{}, ceiling: map[events.RunID]int64{},
		decided: map[events.ApprovalID]string{}, approved: map[events.CallID]events.ApprovalDecision{}}
}

// read decodes a body of our own rows.
func read[T any](w *World, f runner.Fact) (v T) {
	if err := json.Unmarshal(f.Data, &v); err != nil {
		w.fail(EveryChange, "row %d cannot be read: %v", f.Seq, err)
	}
	return v
}

// onFact looks at a row that is being written.
func (w *World) onFact(id events.RunID, row *runRow, f runner.Fact) {
	s := &w.seen
	if f.Seq != int64(len(row.facts))+1 {
		w.fail(EveryChange, "run %s gets row %d behind row %d", id, f.Seq, len(row.facts))
	}
	switch f.Kind {
	case events.FactStarted:
		if s.started[id]++; s.started[id] > 1 {
			w.fail(ExactlyOnce, "run %s is started twice", id)
		}
	case events.FactSignalReceived:
		sig := read[events.Signal](w, f)
		if s.signals[sig.ID] {
			w.fail(ExactlyOnce, "signal %s is received twice", sig.ID)
		}
		s.signals[sig.ID] = true
	case events.FactModelAnswered:
		a := read[events.ModelAnswered](w, f)
		s.answers[id] = f.Seq
		w.count(id, 1, 0)
		for _, c := range a.Calls {
			s.asked[c.CallID] = c
			w.countCall(id, c)
		}
	case events.FactModelFailed:
		s.answers[id] = f.Seq
		if !read[events.ModelFailed](w, f).Unbilled {
			w.count(id, 1, 0)
		}
	case events.FactResumed:
		for _, c := range read[events.Resumed](w, f).Release {
			w.countCall(id, c)
		}
	case events.FactBudgetRaised:
		r := read[events.Raised](w, f)
		s.ceiling[id] = max(s.ceiling[id], r.To)
		for _, c := range r.Release {
			w.countCall(id, c)
		}
	case events.FactApprovalDecided:
		d := read[events.ApprovalDecision](w, f)
		if d.Decision == events.Approve {
			s.approved[d.CallID] = d
		}
	case events.FactToolCompleted:
		t := read[events.ToolCompleted](w, f)
		if t.Status != events.CallUnknown {
			s.results[t.CallID] = t.Status
		}
	}
}

// countCall counts a call that is made, once.
func (w *World) countCall(id events.RunID, c events.AskedCall) {
	if c.Route == events.RouteAnswer || c.Route == events.RouteHold || w.seen.counted[c.CallID] {
		return
	}
	w.seen.counted[c.CallID] = true
	if c.Builtin == "" || c.Builtin == "start_run" {
		w.count(id, 0, 1)
	}
}

func (w *World) count(id events.RunID, models, calls int64) {
	n := w.seen.spent[id]
	w.seen.spent[id] = [2]int64{n[0] + models, n[1] + calls}
}

// onRun looks at a run that has been written.
func (w *World) onRun(id events.RunID, row *runRow) {
	w.onOrders(id, row.state)
	if row.state.Started.Ref.Kind != events.KindAgent {
		return
	}
	agent := w.scene.defs.docs[row.state.Started.Ref.Digest].Agent
	n := w.seen.spent[id]
	if most := max(agent.Budget.ModelCalls, w.seen.ceiling[id]); n[0] > most {
		w.fail(BudgetHolds, "run %s made %d model calls of %d", id, n[0], most)
	}
	if n[1] > agent.Budget.ToolCalls {
		w.fail(BudgetHolds, "run %s made %d tool calls of %d", id, n[1], agent.Budget.ToolCalls)
	}
}

// onOrders looks whether a run is as the last of the orders says that it has recorded.
func (w *World) onOrders(id events.RunID, st *runner.State) {
	if st.End != "" || st.Cancel != nil {
		return
	}
	if c := w.door.last(id, events.RunPause, events.RunResume); c.Place > 0 {
		if stands := st.Pause != nil && st.Pause.By == "operator"; stands != (c.Kind == events.RunPause) {
			w.fail(LastWord, "run %s stands still: %t, and the last word is order %d, %s", id, stands, c.Place, c.Kind)
		}
	}
	if c := w.door.last(id, events.RunRaiseBudget); c.Place > 0 {
		var said events.Command
		if err := json.Unmarshal(c.Body, &said); err != nil || st.Raised[said.Budget] != said.To {
			w.fail(LastWord, "run %s has the ceiling %d, and the last word is order %d, %s", id, st.Raised[said.Budget], c.Place, c.Body)
		}
	}
}

// onModelCall looks at a request that leaves for the model.
func (w *World) onModelCall(j *job) {
	if seq := w.seen.answers[j.run.id]; seq > j.run.request.Seq {
		w.fail(NoneAskedAgain, "%s asks the model what row %d of run %s has", j.p.name, seq, j.run.id)
	}
}

// onAct looks at a request that leaves for the other side.
func (w *World) onAct(j *job) {
	c, s := j.call.c, &w.seen
	asked, ok := s.asked[c.CallID]
	if !ok || asked.Tool != c.Tool || asked.ArgsDigest != c.ArgsDigest {
		w.fail(RecordedFirst, "%s acts for call %s with %s%s, which no row of its run has", j.p.name, c.CallID, c.Tool, c.Args)
	}
	if status := s.results[c.CallID]; status != "" {
		w.fail(NoneAskedAgain, "%s acts for call %s, whose run has the result %s", j.p.name, c.CallID, status)
	}
	if row := w.ledger.calls[c.CallID]; row != nil && (row.Status == events.CallSucceeded || row.Status == events.CallFailed) {
		w.fail(NoneAskedAgain, "%s acts for call %s, which the ledger has as %s", j.p.name, c.CallID, row.Status)
	}
	if !j.call.plan.Gated {
		return
	}
	at, ok := w.ledger.begun[j.call.begin.AttemptID]
	if !ok {
		at = w.now
	}
	var r *question
	if c.Approval != nil {
		r = w.asked.byID[c.Approval.ID]
	}
	switch {
	case r == nil || r.Decision != events.Approve:
		w.fail(Approved, "%s acts for call %s, and nobody said yes", j.p.name, c.CallID)
	case r.CallID != c.CallID || string(r.Args) != string(c.Args):
		w.fail(Approved, "%s acts for call %s with %s, and the yes was to %s", j.p.name, c.CallID, c.Args, r.Args)
	case at.After(r.ValidUntil):
		w.fail(Approved, "%s acts for call %s, whose yes was good until %s before", j.p.name, c.CallID, at.Sub(r.ValidUntil))
	case !r.UnusedAt.IsZero() && r.UnusedAt.Before(at):
		w.fail(Approved, "%s acts for call %s, whose yes was withdrawn", j.p.name, c.CallID)
	}
}

// onApplied looks at something that has happened out there, for the n-th time.
func (w *World) onApplied(j *job, n int) {
	if n > 1 {
		w.fail(AtMostOnce, "%s happened %d times under the key %s", j.call.c.Tool, n, j.call.plan.Key)
	}
}

// onEffect looks at what the ledger says has become of an act.
func (w *World) onEffect(e *effectRow) {
	n := w.world.applied(e.Key, e.Tool)
	switch {
	case e.State == tools.EffectFailed && n > 0:
		w.fail(AtMostOnce, "the ledger says that %s under %s did not happen, and it did", e.Tool, e.Key)
	case e.State == tools.EffectSucceeded && n == 0:
		w.fail(AtMostOnce, "the ledger says that %s under %s happened, and it did not", e.Tool, e.Key)
	}
}

// onDecision looks at what a person was answered.
func (w *World) onDecision(r *question, decision string, o approvals.Outcome) {
	before, ok := w.seen.decided[r.ID]
	switch {
	case o == approvals.Decided && ok:
		w.fail(ExactlyOnce, "%s is decided twice: %s and %s", r.ID, before, decision)
	case o == approvals.Repeated && r.Decision != decision:
		w.fail(ExactlyOnce, "%s was decided %s, and %s is answered as its repeat", r.ID, r.Decision, decision)
	case o == approvals.Decided:
		w.seen.decided[r.ID] = decision
	}
}

// eventOut looks at an event that goes out.
func (w *World) eventOut(m events.Message) {
	i := strings.LastIndexByte(m.ID, ':')
	seq, _ := strconv.ParseInt(m.ID[i+1:], 10, 64)
	row := w.runs.byID[events.RunID(m.ID[:i])]
	var e events.RunEvent
	if err := json.Unmarshal(m.Data, &e); err != nil {
		w.fail(EveryChange, "event %s: %v", m.ID, err)
	}
	if row == nil || seq > int64(len(row.facts)) || row.facts[seq-1].Kind != e.Kind {
		w.fail(EveryChange, "event %s says %s, and there is no such row", m.ID, e.Kind)
		return
	}
	row.out[seq] = true
}

// atRest looks at a world in which nothing happens any more.
func (w *World) atRest() {
	for _, c := range w.scene.clients {
		switch {
		case !c.answered:
		case w.runs.byID[c.run] == nil:
			w.fail(ExactlyOnce, "%s was answered with run %s, and there is none", c.what, c.run)
		case !w.runs.landed(c.run, c.cause):
			w.fail(ExactlyOnce, "%s was answered, and run %s has no row of it", c.what, c.run)
		}
	}
	for _, id := range w.asked.order {
		if r := w.asked.byID[id]; w.seen.decided[id] != "" && !w.runs.landed(r.RunID, r.Cause()) {
			w.fail(ExactlyOnce, "the decision of %s was answered, and its run has no row of it", id)
		}
	}
	for _, id := range w.runs.order {
		row := w.runs.byID[id]
		if st := row.state; st.End == "" {
			w.fail(NothingLost, "run %s is %s for ever, and waits for %s%s", id, st.Status(), st.Waiting(), fmt.Sprint(st.PendingItems()))
		}
		for _, f := range row.facts {
			if !w.lossy && !row.out[f.Seq] {
				w.fail(EveryChange, "row %d of run %s, %s, has no event", f.Seq, id, f.Kind)
			}
		}
	}
	if err := w.runs.refold(); err != nil {
		w.fail(EveryChange, "%v", err)
	}
}
