package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
	"github.com/holdfast-run/holdfast/services/runner"
	"github.com/holdfast-run/holdfast/services/tools"
)

// sweep is work that a row asks for, and no message: any replica may do it.
type sweep struct {
	name string
	role role
	next func(*World) time.Time // when something is due; zero: never
	take func(*World, *job)
}

// due reports whether it has something to do and nobody is at it.
func (s *sweep) due(w *World) bool {
	at := s.next(w)
	if at.IsZero() || at.After(w.now) {
		return false
	}
	return !slices.ContainsFunc(w.jobs, func(j *job) bool { return j.what == s.name && !j.over && j.p.runs() })
}

func allSweeps() []sweep {
	return []sweep{
		{"timers", roleRunner, nextTimer, takeTimers},
		{"the doctor", roleRunner, nextNudge, takeNudges},
		{"due calls", roleTools, func(w *World) time.Time { return w.ledger.nextDue() }, takeDue},
		{"expiry", roleApprovals, func(w *World) time.Time { return w.asked.nextExpiry() }, func(w *World, j *job) { w.asked.expire(); w.ack(j) }},
		{"relay of decisions", roleApprovals, nextDecision, relayDecisions},
		{"relay", roleDoor, nextDebt, relayDebts},
	}
}

func nextTimer(w *World) (at time.Time) {
	for _, id := range w.runs.order {
		for _, t := range w.runs.byID[id].timers {
			at = earlier(at, t.next)
		}
	}
	return at
}

// takeTimers hides each due timer for 30 s; only the run's commit deletes it.
func takeTimers(w *World, j *job) {
	var out []events.Message
	for _, id := range w.runs.order {
		row := w.runs.byID[id]
		for _, name := range slices.Sorted(maps.Keys(row.timers)) {
			if t := row.timers[name]; !t.next.After(w.now) {
				t.next, t.tries = w.now.Add(30*time.Second), t.tries+1
				out = append(out, runner.TimerMessage(runner.DueTimer{RunID: id, Timer: t.Timer, Try: t.tries}, w.now))
			}
		}
	}
	w.publish(j, out, func(w *World, j *job) { w.ack(j) })
}

func nextNudge(w *World) (at time.Time) {
	if !w.lossy { // nothing is lost, so nobody needs to ask
		return at
	}
	for _, id := range w.runs.order {
		for _, p := range w.runs.byID[id].pending {
			at = earlier(at, p.next)
		}
	}
	return at
}

// takeNudges asks again about what made no progress.
func takeNudges(w *World, j *job) {
	var out []events.Message
	for _, id := range w.runs.order {
		row := w.runs.byID[id]
		for _, item := range slices.Sorted(maps.Keys(row.pending)) {
			p := row.pending[item]
			if p.next.IsZero() || p.next.After(w.now) {
				continue
			}
			p.next = w.now.Add(min(30*time.Second<<min(p.nudges, 7), time.Hour))
			p.nudges++
			if b := w.beatOf(row.claim.Worker); item == "model" && b.Known && b.Age <= judgedDead {
				continue // a living worker is at it
			}
			plan, err := w.scene.defs.planOf(row.state)
			if err != nil {
				w.fail(NothingLost, "%v", err)
				return
			}
			if m, ok := runner.Nudge(row.state, plan, item, p.nudges); ok {
				out = append(out, m)
			}
		}
	}
	w.publish(j, out, func(w *World, j *job) { w.ack(j) })
}

func takeDue(w *World, j *job) {
	var out []events.Message
	for _, c := range w.ledger.due() {
		m, err := tools.Again(c, fmt.Sprintf("w%d", w.now.UnixMilli()))
		if err != nil {
			w.fail(NothingLost, "%v", err)
			return
		}
		out = append(out, m)
	}
	w.publish(j, out, func(w *World, j *job) { w.ack(j) })
}

// announceID is the message id of the k-th announcement of a row.
func announceID(cause string, k int) string {
	if k == 0 {
		return cause
	}
	return fmt.Sprintf("%s:n%d", cause, k)
}

func nextDecision(w *World) (at time.Time) {
	for _, id := range w.asked.order {
		at = earlier(at, w.asked.byID[id].announce)
	}
	return at
}

// relayDecisions announces each decision until the run has it.
func relayDecisions(w *World, j *job) {
	var out []events.Message
	var said []*question
	for _, id := range w.asked.order {
		r := w.asked.byID[id]
		switch {
		case r.announce.IsZero() || r.announce.After(w.now):
		case w.runs.landed(r.RunID, r.Cause()):
			r.announce = time.Time{}
		default:
			out, said = append(out, approvals.Announcement(r.Request, announceID(r.Cause(), r.AnnounceCount))), append(said, r)
		}
	}
	w.publish(j, out, func(w *World, j *job) {
		j.next("mark", func(w *World, j *job) {
			for _, r := range said {
				r.announce = w.now.Add(10 * time.Second << min(r.AnnounceCount, 5))
				r.AnnounceCount++
			}
			w.ack(j)
		})
	})
}

func nextDebt(w *World) (at time.Time) {
	for _, d := range w.door.debts {
		at = earlier(at, d.next)
	}
	return at
}

// relayDebts announces what doors have answered until the runner has it.
func relayDebts(w *World, j *job) {
	var out []events.Message
	var said []*debt
	for _, d := range w.door.debts {
		switch {
		case d.next.IsZero() || d.next.After(w.now):
		case w.runs.landed(d.run, d.cause):
			d.next = time.Time{}
		default:
			out, said = append(out, d.message(announceID(d.cause, d.count))), append(said, d)
		}
	}
	w.publish(j, out, func(w *World, j *job) {
		j.next("mark", func(w *World, j *job) {
			for _, d := range said {
				d.next = w.now.Add(10 * time.Second << min(d.count, 5))
				d.count++
			}
			w.ack(j)
		})
	})
}
