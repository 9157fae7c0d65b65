package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// How often something goes wrong, once in so many times; at most, because a quiet
// world divides its odds.
const (
	oddsAckLost     = 40
	oddsPublish     = 60
	oddsStreamLoses = 15
	oddsTwice       = 60
	oddsCommit      = 30
	oddsModel       = 12
	oddsOutside     = 8
)

// restless is how many steps a world goes on before its faults end. Then everybody
// who waits is answered and it must come to rest.
const (
	restless = 700
	forever  = 10_000
)

// World is a deployment and everything around it, in one goroutine and by a clock of
// its own. The same choices make the same world.
type World struct {
	c     *Choices
	flaw  Flaw
	now   time.Time
	steps int
	calm  bool // the faults are over
	lossy bool // the broker may lose what it has stored; then the doctor asks
	chaos int  // once in so many steps something else goes on than what was going on

	bus    *bus
	runs   *runRows
	ledger *ledger
	asked  *questions
	door   *doorRows
	world  *outside
	scene  *scene

	procs  []*proc
	beats  map[string]*beat
	naps   map[string]time.Duration
	jobs   []*job
	last   *job
	sweeps []sweep

	broken *Broken
	trace  *trace
	seen   promises
}

// Broken is a promise that does not hold.
type Broken struct {
	Promise Promise
	Why     string
}

func (b *Broken) Error() string { return fmt.Sprintf("%s: %s", b.Promise, b.Why) }

// Result is what became of a world.
type Result struct {
	Broken *Broken // nil: every promise held
	Steps  int
	Faults []Fault // what was chosen, to replay
	Trace  string  // when it was asked for
}

// Play lets one world go on until it rests or breaks a promise.
func Play(c *Choices, flaw Flaw, traced bool) Result {
	w := newWorld(c, flaw)
	if traced {
		w.trace = &trace{}
	}
	for w.broken == nil && w.step() {
	}
	if w.broken == nil {
		w.atRest()
	}
	r := Result{Broken: w.broken, Steps: w.steps, Faults: c.made}
	if w.broken != nil {
		w.broken.Why = w.named(w.broken.Why)
	}
	if traced {
		r.Trace = w.named(w.trace.String())
	}
	return r
}

func newWorld(c *Choices, flaw Flaw) *World {
	w := &World{c: c, flaw: flaw, now: dawn, bus: newBus(), seen: newPromises(), beats: map[string]*beat{}, naps: map[string]time.Duration{}}
	w.chaos = []int{12, 5, 30, 100}[c.any("chaos", 4)]
	w.lossy = c.any("lossy", 4) == 3
	w.runs, w.ledger, w.asked, w.door = newRunRows(w), newLedger(w), newQuestions(w), newDoorRows(w)
	w.world = newOutside()
	w.scene = newScene(w)
	for _, r := range []role{roleRunner, roleRunner, roleTools, roleTools, roleApprovals, roleDoor} {
		n := 1
		for _, p := range w.procs {
			if p.role == r {
				n++
			}
		}
		w.procs = append(w.procs, &proc{role: r, place: fmt.Sprintf("%s-%d", r, n)})
	}
	for _, p := range w.procs {
		w.boot(p)
	}
	w.sweeps = allSweeps()
	return w
}

// fail records the first promise that broke.
func (w *World) fail(p Promise, format string, args ...any) {
	if w.broken == nil {
		w.broken = &Broken{p, fmt.Sprintf(format, args...)}
		w.tell(nil, "BROKEN "+w.broken.Error())
	}
}

// fault chooses whether something goes wrong at this step.
func (w *World) fault(what string, oneIn int) bool {
	if w.calm || !w.c.rarely(what, oneIn) {
		return false
	}
	if w.trace != nil && w.last != nil {
		w.note(w.last, "("+what+")")
	}
	return true
}

// act is one thing that may happen next.
type act struct {
	job    *job
	letter *letter
	to     *proc
	sweep  *sweep
	scene  func()
}

// step lets one thing happen. It returns false when nothing is left to happen.
func (w *World) step() bool {
	w.steps++
	w.now = w.now.Add(time.Millisecond)
	if w.steps > forever {
		w.fail(NothingLost, "the world does not come to rest")
		return false
	}
	if !w.calm && w.steps > restless {
		w.calmDown()
	}
	for _, p := range w.procs {
		switch {
		case !p.up && !w.now.Before(p.wakes):
			w.boot(p)
		case p.asleep && !w.now.Before(p.wakes):
			w.wake(p)
		}
	}
	acts := w.acts()
	if !w.calm {
		const mishaps = 4
		w.c.at(w.placeOf(acts))
		if v := w.c.pick("next", len(acts)+1+mishaps, w.chaos); v > len(acts) {
			w.mishap(v - len(acts) - 1)
			return true
		} else if v > 0 && v < len(acts) {
			acts[0] = acts[v]
		} else if v > 0 {
			return w.pass() || len(acts) > 0
		}
	}
	if len(acts) == 0 {
		if w.pass() {
			return true
		}
		if !w.calm {
			w.calmDown()
			return true
		}
		return false
	}
	w.do(acts[0])
	return true
}

// calmDown ends the faults.
func (w *World) calmDown() {
	w.calm = true
	w.tell(nil, "the faults are over")
	w.scene.calm(w)
}

// acts lists what may happen, first what happens when nothing goes wrong.
func (w *World) acts() []act {
	var out []act
	if w.last != nil && w.runnable(w.last) {
		out = append(out, act{job: w.last})
	}
	for _, j := range w.jobs {
		if j != w.last && w.runnable(j) {
			out = append(out, act{job: j})
		}
	}
	for _, l := range w.bus.letters {
		if !w.ready(l) {
			continue
		}
		for i := range w.procs { // fair: each delivery begins with the next process
			if p := w.procs[(i+int(l.seq+l.delivered))%len(w.procs)]; w.takes(p, l) {
				out = append(out, act{letter: l, to: p})
			}
		}
	}
	for i := range w.sweeps {
		if s := &w.sweeps[i]; s.due(w) {
			if p := w.free(s.role); p != nil {
				out = append(out, act{sweep: s, to: p})
			}
		}
	}
	for _, do := range w.scene.acts(w) {
		out = append(out, act{scene: do})
	}
	return out
}

func (w *World) runnable(j *job) bool {
	if j.over || !j.p.runs() {
		return false
	}
	holder := j.p.locks[j.run.id]
	return holder == nil || holder == j || j.phase != "load" && j.phase != "conclude"
}

func (w *World) ready(l *letter) bool {
	return !w.now.Before(l.ready) && (l.job == nil || l.job.over || !l.job.p.runs())
}

func (w *World) takes(p *proc, l *letter) bool {
	return p.runs() && p.role.serves(l.queue) && p.jobs < jobsAtOnce && (l.queue != queueStep || p.slots > 0)
}

func (w *World) free(r role) *proc {
	for _, p := range w.procs {
		if p.role == r && p.runs() && p.jobs < jobsAtOnce {
			return p
		}
	}
	return nil
}

func (w *World) do(a act) {
	switch {
	case a.job != nil:
		w.goOn(a.job)
	case a.letter != nil:
		w.deliver(a.letter, a.to)
	case a.sweep != nil:
		j := w.begin(a.to, nil, a.sweep.name)
		j.next("take", a.sweep.take)
	case a.scene != nil:
		a.scene()
	}
}

// placeOf names what happens next when nothing goes wrong.
func (w *World) placeOf(acts []act) uint64 {
	if len(acts) == 0 {
		return 0
	}
	switch a := acts[0]; {
	case a.job != nil:
		return mix(a.job.place, hash(a.job.phase))
	case a.letter != nil:
		return mix(hash(a.letter.ID), a.letter.delivered)
	case a.sweep != nil:
		return hash(a.sweep.name)
	}
	return hash("outside")
}

func (w *World) goOn(j *job) {
	w.last = j
	w.c.at(mix(j.place, hash(j.phase)))
	if j.phase != "publish" {
		w.note(j, j.phase)
	}
	j.do(w, j)
	if j.over {
		w.sweepJobs()
	}
}

// deliver hands a message to a process. One that has it already adopts it.
func (w *World) deliver(l *letter, p *proc) {
	l.delivered++
	for _, j := range w.jobs {
		if j.p == p && !j.over && j.letter == l {
			l.job = j
			return
		}
	}
	what := kindOf(l.Message) + " " + l.ID
	if l.delivered > 1 {
		what += fmt.Sprintf(" (delivery %d)", l.delivered)
	}
	j := w.begin(p, l, what)
	l.job = j
	switch l.queue {
	case queueStep:
		p.slots--
		j.run.step = true
		fallthrough
	case queueRunner:
		receiveRun(w, j)
	case queueTools, queueControl:
		receiveTool(w, j)
	case queueApprovals:
		receiveAsk(w, j)
	}
	w.last = j
}

func (w *World) begin(p *proc, l *letter, what string) *job {
	j := &job{p: p, letter: l, what: what, place: hash(what)}
	if l != nil {
		j.place = mix(hash(l.ID), l.delivered)
	}
	p.jobs++
	w.jobs = append(w.jobs, j)
	return j
}

// sweepJobs forgets what is over.
func (w *World) sweepJobs() {
	w.jobs = slices.DeleteFunc(w.jobs, func(j *job) bool {
		if j.over && j.p.up {
			j.p.jobs--
		}
		return j.over
	})
}

// mishap is something that happens to a process or to the broker.
func (w *World) mishap(kind int) {
	p := w.procs[w.c.any("who", len(w.procs))]
	if w.last != nil && !w.last.over && w.c.pick("somebody else", 2, 2) == 0 {
		p = w.last.p // what is at work is the more interesting
	}
	switch {
	case kind == 3:
		w.tell(nil, "the broker restarts and hands out everything again")
		for _, l := range w.bus.letters {
			if l.job != nil {
				l.job, l.ready = nil, w.now
			}
		}
	case !p.runs():
	case kind == 2:
		w.nap(p, []time.Duration{5 * time.Second, time.Second / 2, time.Second, 2500 * time.Millisecond, 20 * time.Second}[w.c.any("sleeps", 5)])
	default:
		w.crash(p)
	}
}

// pass lets time pass until something is due. It returns false when nothing ever is.
func (w *World) pass() bool {
	at := time.Time{}
	sooner := func(t time.Time) {
		if !t.IsZero() && t.After(w.now) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for _, p := range w.procs {
		if !p.runs() {
			sooner(p.wakes)
		}
	}
	for _, l := range w.bus.letters {
		if l.job == nil || l.job.over || !l.job.p.runs() {
			sooner(l.ready)
		}
	}
	for i := range w.sweeps {
		sooner(w.sweeps[i].next(w))
	}
	if at.IsZero() {
		return false
	}
	if d := at.Sub(w.now); d > time.Second {
		w.tell(nil, fmt.Sprintf("%s pass", d.Round(time.Second)))
	}
	w.now = at
	return true
}

// named makes the ids of runs short, in the order in which they began: R1, R2.
func (w *World) named(text string) string {
	var pairs []string
	for i, id := range w.runs.order {
		pairs = append(pairs, string(id), fmt.Sprintf("R%d", i+1))
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

func lastToken(subject string) string {
	for i := len(subject) - 1; i >= 0; i-- {
		if subject[i] == '.' {
			return subject[i+1:]
		}
	}
	return subject
}

// dawn is when every world begins.
var dawn = time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC)

// runID is the id of the n-th run that a world's door starts, whenever it does.
func runID(n int) events.RunID {
	ms := dawn.UnixMilli()
	return events.RunID(fmt.Sprintf("%08x-%04x-7000-8000-%012x", ms>>16, ms&0xffff, n))
}
