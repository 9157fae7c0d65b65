package sim

import (
	"encoding/json"
	"fmt"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
	"github.com/holdfast-run/holdfast/services/runner"
)

// scene is what people and programs outside want of a world.
type scene struct {
	defs    *definitions
	clients []*client
	starts  int // how many of the first clients start a run
	helped  map[string]bool
}

// newScene chooses who wants what: one to three runs, and up to four orders to them.
func newScene(w *World) *scene {
	s := &scene{defs: catalog(), helped: map[string]bool{}}
	s.starts = 1 + w.c.pick("starts", 3, 3)
	for n := range s.starts {
		key := fmt.Sprintf("start-%d", n+1)
		ref := s.defs.ref(events.KindAgent, "clerk")
		if w.c.pick("flow "+key, 2, 4) == 1 {
			ref = s.defs.ref(events.KindFlow, "round")
		}
		s.clients = append(s.clients, &client{what: "POST " + ref.Name + " with key " + key, key: key,
			commit: func(w *World) (events.RunID, string) { return w.door.start(key, ref, []byte(`{"items":[1,2,3]}`)) }})
	}
	for n := range w.c.pick("orders", 5, 3) {
		of := s.clients[w.c.pick("of", s.starts, 3)]
		kind := []string{events.RunCancel, events.RunPause, events.RunSignal, events.RunRaiseBudget, events.RunResume}[w.c.any("order", 5)]
		s.order(fmt.Sprintf("order-%d", n+1), kind, of)
	}
	return s
}

// order lets somebody order something of the run that another client starts.
func (s *scene) order(key, kind string, of *client) {
	s.clients = append(s.clients, &client{what: "POST " + kind, key: key, of: of, commit: func(w *World) (events.RunID, string) {
		return w.door.command(key, kind, of.run, func(place int) any { return orderBody(key, kind, of.run, place) })
	}})
}

// orderBody is what an order says; each raise is to another ceiling.
func orderBody(id, kind string, run events.RunID, place int) any {
	if kind == events.RunSignal {
		return events.Signal{ID: id, RunID: run, Name: "paid", Data: json.RawMessage(`1`), Principal: "ann"}
	}
	c := events.Command{ID: id, RunID: run, Principal: "ann", Reason: "so"}
	if kind == events.RunRaiseBudget {
		c.Budget, c.To = "modelCalls", int64(15-place)
	}
	return c
}

// acts lists what somebody outside may do now.
func (s *scene) acts(w *World) (out []func()) {
	door := w.free(roleDoor) != nil
	for i, c := range s.clients {
		switch {
		case c.busy || !door, c.of != nil && !c.of.answered:
		case !c.answered:
			out = append(out, func() { w.ask(c) })
		case !w.calm && i < s.starts && !s.helped["again "+c.key]: // as if its answer had been lost
			if len(out) > 0 || len(w.jobs) > 0 {
				out = append(out, func() { s.helped["again "+c.key] = true; w.ask(c) })
			}
		}
	}
	if w.free(roleApprovals) != nil {
		for _, id := range w.asked.order {
			r := w.asked.byID[id]
			switch {
			case r.busy || !r.asked:
			case r.State == approvals.StatePending:
				out = append(out, func() { w.click(r, s.says(w, r)) })
			case r.DecidedBy != "" && !w.calm && !s.helped["late "+string(id)] && len(w.jobs) > 0:
				out = append(out, func() { s.helped["late "+string(id)] = true; w.click(r, s.says(w, r)) })
			}
		}
	}
	if w.calm && door {
		out = append(out, s.help(w)...)
	}
	return out
}

// says is what a person says to a question. About a doubt people tell the truth.
func (s *scene) says(w *World, r *question) string {
	switch r.Kind {
	case events.ApprovalDoubt:
		if w.world.applied(r.Key, r.Tool) > 0 {
			return events.Happened
		}
		return []string{events.NotHappened, events.GiveUp}[w.c.pick("gives up", 2, 5)]
	}
	return []string{events.Approve, events.Reject}[w.c.pick("rejects", 2, 4)]
}

// calm is called when the faults are over.
func (s *scene) calm(*World) {}

// help lets every run that stands still go on, once for each time that it does.
func (s *scene) help(w *World) (out []func()) {
	for _, id := range w.runs.order {
		st := w.runs.byID[id].state
		if st.End != "" || st.Cancel != nil {
			continue
		}
		kind := events.RunResume
		switch {
		case st.Pause != nil && st.Pause.By == "budget":
			kind = events.RunRaiseBudget
		case st.Pause != nil || st.Attention != nil:
		default:
			continue
		}
		key := fmt.Sprintf("%s-%s-%d", kind, id, st.Seq)
		if s.helped[key] {
			continue
		}
		out = append(out, func() {
			s.helped[key] = true
			c := &client{what: "POST " + kind, key: key}
			c.commit = func(w *World) (events.RunID, string) {
				body := events.Command{ID: key, RunID: id, Principal: "ann"}
				if kind == events.RunRaiseBudget {
					body.Budget, body.To = "modelCalls", st.ModelCalls+20
				}
				return w.door.command(key, kind, id, func(int) any { return body })
			}
			s.clients = append(s.clients, c)
			w.ask(c)
		})
	}
	return out
}

// model is what the model says: it ends, or it calls one or two tools.
func (s *scene) model(w *World, j *job) (runner.Answer, error) {
	if w.fault("the model is busy", oddsModel) {
		return runner.Answer{}, &runner.ModelError{Code: "overloaded", Retry: true, Err: errModel}
	}
	a := runner.Answer{Model: "x", Raw: fmt.Sprintf("said at step %d", w.steps), StopReason: runner.StopEnd, Text: "done", Usage: events.Usage{InputTokens: 10, OutputTokens: 5}}
	if w.calm || w.c.any("calls", 4) == 0 {
		return a, nil
	}
	a.StopReason, a.Text = runner.StopTools, ""
	names := make([]string, 0, len(j.run.request.Tools))
	for _, t := range j.run.request.Tools {
		names = append(names, t.Name)
	}
	for i := range 1 + w.c.pick("two", 2, 3) {
		name := names[w.c.any("tool", len(names))]
		args := fmt.Sprintf(`{"n":%d}`, w.c.any("n", 3))
		switch name {
		case "delegate":
			args = `{"agent":"helper","input":{}}`
		case "sleep":
			args = `{"for":"5s"}`
		}
		a.Calls = append(a.Calls, runner.ModelCall{ProviderID: fmt.Sprintf("c%d", i), Tool: name, Args: json.RawMessage(args)})
		w.note(j, "calls "+name+args)
	}
	return a, nil
}
