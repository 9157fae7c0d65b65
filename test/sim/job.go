package sim

import (
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
	"github.com/holdfast-run/holdfast/services/tools"
)

// job is one handler at work, or one sweep. It stands between two steps: what it
// does next is do, and phase is its name.
type job struct {
	p      *proc
	letter *letter // nil for a sweep
	what   string
	phase  string
	do     func(*World, *job)
	over   bool
	place  uint64 // names it among the choices
	slept  bool   // its process slept so long that its beat is late
	lost   func() // what a crash undoes outside of it
	line   *line

	out  []events.Message // to publish, the first is next
	then func(*World, *job)

	run  runJob
	call callJob
}

// runJob is what the runner's handler has in hand.
type runJob struct {
	id      events.RunID
	what    string
	locked  bool
	loaded  runner.Loaded
	plan    *runner.Plan
	commit  runner.Commit
	create  bool
	took    bool // a slot
	step    bool // the puller's slot
	claimed *runner.Claimed
	request runner.Request
	answer  runner.Answer
	callErr error
	again   bool
}

// callJob is what the handler of tools has in hand.
type callJob struct {
	c        events.CallTool
	plan     tools.Plan
	decided  tools.Decision
	begin    tools.Begin
	claim    tools.Claim
	until    time.Time
	outcome  tools.Outcome
	acted    bool
	rereads  int
	answered []tools.Call
}

// next says what the job does when it is its turn again.
func (j *job) next(phase string, do func(*World, *job)) { j.phase, j.do = phase, do }

// ack says that the message is done with.
func (w *World) ack(j *job) {
	j.next("ack", func(w *World, j *job) {
		w.end(j)
		if j.letter == nil {
			return
		}
		if w.fault("the acknowledgement is lost", oddsAckLost) {
			if j.letter.job == j {
				j.letter.job, j.letter.ready = nil, w.now.Add(ackWait)
			}
			return
		}
		w.bus.remove(j.letter)
	})
}

// nak gives the message back, to come again after d.
func (w *World) nak(j *job, d time.Duration) {
	w.note(j, "back for "+d.String())
	w.end(j)
	if j.letter != nil && j.letter.job == j {
		j.letter.job, j.letter.ready = nil, w.now.Add(d)
	}
}

// drop leaves the message to whoever has taken its work: neither acknowledged nor
// given back.
func (w *World) drop(j *job) {
	w.note(j, "drops it: another has it")
	w.end(j)
	if j.letter != nil && j.letter.job == j {
		j.letter.job, j.letter.ready = nil, w.now.Add(ackWait)
	}
}

func (w *World) end(j *job) {
	j.over = true
	w.unlock(j)
	if j.run.step || j.run.took {
		j.p.slots++
		j.run.step, j.run.took = false, false
	}
	if c := j.run.claimed; c != nil && j.p.active[j.run.id] == c.Epoch {
		delete(j.p.active, j.run.id)
	}
}

// publish sends messages one by one, then goes on. A message that does not get out
// fails the handler.
func (w *World) publish(j *job, out []events.Message, then func(*World, *job)) {
	j.out, j.then = out, then
	if len(out) == 0 {
		then(w, j)
		return
	}
	j.next("publish", publishNext)
}

func publishNext(w *World, j *job) {
	m := j.out[0]
	if w.fault("nothing gets out", oddsPublish) {
		w.failed(j)
		return
	}
	j.out = j.out[1:]
	w.send(j, m)
	if len(j.out) == 0 {
		j.then(w, j)
	}
}

// failed is an error that a retry cures. Whoever has a claim and lives on lets go of
// it first, so that the message finds it free.
func (w *World) failed(j *job) {
	if c := j.run.claimed; c != nil {
		w.runs.release(j.run.id, runner.Claim{Worker: c.Worker, Epoch: c.Epoch})
	}
	if j.lost != nil {
		j.lost()
	}
	if j.call.begin.AttemptID != "" && !j.call.acted {
		j.p.own[j.call.begin.AttemptID] = tools.OwnIdle
	}
	w.nak(j, time.Second/2)
}

// send puts a message on the bus.
func (w *World) send(j *job, m events.Message) {
	w.note(j, "→"+kindOf(m))
	if m.Type == events.TypeRunEvent {
		w.eventOut(m)
		return
	}
	if w.lossy && w.fault("the stream loses it", oddsStreamLoses) {
		return
	}
	l, ok := w.bus.store(m, w.now)
	if !ok {
		w.note(j, "(a repeat)")
		return
	}
	if w.fault("it is stored twice", oddsTwice) { // its publisher did not hear the first answer
		twice := *l
		w.bus.seq++
		twice.seq = w.bus.seq
		w.bus.letters = append(w.bus.letters, &twice)
	}
}

func kindOf(m events.Message) string {
	switch m.Type {
	case events.TypeRunEvent:
		return "event"
	case events.TypeCallTool:
		return "call"
	case events.TypeControlTool:
		return "control"
	case events.TypeAskApproval:
		return "ask"
	case events.TypeWithdraw:
		return "withdraw"
	}
	return lastToken(m.Subject)
}
