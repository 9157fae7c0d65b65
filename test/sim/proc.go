package sim

import (
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
	"github.com/holdfast-run/holdfast/services/tools"
)

// role is what a process does.
type role int

const (
	roleRunner role = iota
	roleTools
	roleApprovals
	roleDoor // trigger and console: what answers 2xx, and its relay
	roles
)

func (r role) String() string { return [...]string{"runner", "tools", "approvals", "door"}[r] }

// serves says which queues a role takes messages from.
func (r role) serves(q queue) bool {
	switch r {
	case roleRunner:
		return q == queueRunner || q == queueStep
	case roleTools:
		return q == queueTools || q == queueControl
	case roleApprovals:
		return q == queueApprovals
	}
	return false
}

// How much one process does at once, and how long it is silent before others may
// judge it.
const (
	jobsAtOnce    = 4
	slotsOfRunner = 2
	sleepsLate    = 900 * time.Millisecond // its own beat is then no longer fresh
	judgedDead    = 1500 * time.Millisecond
	judgesAfter   = 2 * time.Second // it must have been fresh for so long itself
)

// proc is a process. A crash takes all of it but its rows.
type proc struct {
	role   role
	place  string // "runner-1": what starts again in the same place
	starts int
	name   string // unique per start
	up     bool
	asleep bool
	wakes  time.Time // when it starts again, or wakes up
	since  time.Time // up and on time since then
	jobs   int

	cache  map[events.RunID]*runner.State // what it thinks runs are
	active map[events.RunID]int64         // epochs of the model calls that it makes
	locks  map[events.RunID]*job
	slots  int
	own    map[string]tools.Own // what it knows of its attempts
}

func (p *proc) start(now time.Time) {
	p.starts++
	p.name = fmt.Sprintf("%s.%d", p.place, p.starts)
	p.up, p.asleep, p.since, p.jobs = true, false, now, 0
	p.cache, p.active = map[events.RunID]*runner.State{}, map[events.RunID]int64{}
	p.locks, p.slots, p.own = map[events.RunID]*job{}, slotsOfRunner, map[string]tools.Own{}
}

func (p *proc) runs() bool { return p.up && !p.asleep }

// beat is a row of heartbeats.
type beat struct {
	last, since time.Time
	of          *proc // nil: it died
}

// beatOf is a worker's heartbeat as the database sees it. A process that runs beats
// all the time.
func (w *World) beatOf(worker string) tools.Beat {
	b, ok := w.beats[worker]
	if !ok {
		return tools.Beat{}
	}
	last := b.last
	if b.of != nil && b.of.runs() {
		last = w.now
	}
	return tools.Beat{Known: true, Age: w.now.Sub(last), FreshFor: w.now.Sub(b.since)}
}

// mayTake reports whether taker may take a claim from owner: the statement that
// takes a claim over asks this by the database's clock.
func (w *World) mayTake(taker, owner string) bool {
	me, o := w.beatOf(taker), w.beatOf(owner)
	return me.Known && me.Age < sleepsLate && me.FreshFor > judgesAfter && !(o.Known && o.Age <= judgedDead)
}

func (w *World) boot(p *proc) {
	p.start(w.now)
	w.beats[p.name] = &beat{last: w.now, since: w.now, of: p}
	if p.starts > 1 {
		w.tell(p, "starts")
	}
}

// crash ends a process between two of its steps. What it had in hand stays with the
// broker until nobody has spoken for it for a while.
func (w *World) crash(p *proc) {
	w.tell(p, "CRASH")
	w.beats[p.name].last, w.beats[p.name].of = w.now, nil
	if p.asleep {
		w.beats[p.name].last = p.wakes.Add(-w.naps[p.name]) // it beat last when it fell asleep
	}
	p.up, p.asleep, p.wakes = false, false, w.now.Add(time.Duration(1+w.c.pick("starts again", 5, 2))*time.Second)
	for _, j := range w.jobs {
		if j.p == p {
			w.lost(j)
		}
	}
	w.sweepJobs()
}

// lost leaves a message to the broker, which hands it out again after its wait.
func (w *World) lost(j *job) {
	j.over = true
	if j.letter != nil && j.letter.job == j {
		j.letter.job, j.letter.ready = nil, w.now.Add(ackWait)
	}
	if j.lost != nil {
		j.lost()
	}
}

// nap stops a process for a while, as SIGSTOP, a long collection of garbage or a
// hung disk does. It does not know that it slept, except by its beat.
func (w *World) nap(p *proc, d time.Duration) {
	w.tell(p, fmt.Sprintf("SLEEPS for %s", d))
	w.beats[p.name].last = w.now
	w.naps[p.name] = d
	p.asleep, p.wakes = true, w.now.Add(d)
	for _, j := range w.jobs {
		if j.p == p && j.letter != nil && j.letter.job == j {
			j.letter.ready = w.now.Add(ackWait) // nobody says that it is in progress
		}
	}
}

func (w *World) wake(p *proc) {
	w.tell(p, "wakes")
	b := w.beats[p.name]
	late := w.now.Sub(b.last) > sleepsLate
	if p.asleep = false; !late {
		return
	}
	b.since = w.now
	for _, j := range w.jobs {
		if j.p == p {
			j.slept = true
		}
	}
}
