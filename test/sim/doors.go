package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
	"github.com/holdfast-run/holdfast/services/console"
	"github.com/holdfast-run/holdfast/services/trigger"
)

// doorRows is what the doors have committed before they answered: trigger's
// deliveries and the console's commands. Each is a debt until the runner has it.
type doorRows struct {
	w          *World
	deliveries map[string]trigger.Delivery // by key
	commands   map[string]console.Command  // by key
	places     map[events.RunID]int        // the last that was given
	debts      []*debt
}

type debt struct {
	run     events.RunID
	cause   string
	message func(msgID string) events.Message
	next    time.Time // zero: it landed
	count   int
}

func newDoorRows(w *World) *doorRows {
	return &doorRows{w: w, deliveries: map[string]trigger.Delivery{}, commands: map[string]console.Command{}, places: map[events.RunID]int{}}
}

// client is somebody outside who wants one thing and asks until it is answered.
type client struct {
	what     string
	key      string  // the same in every try
	of       *client // who must have been answered before; nil: nobody
	busy     bool
	answered bool
	run      events.RunID
	cause    string
	commit   func(*World) (run events.RunID, cause string)
}

// ask sends the client's request to a door.
func (w *World) ask(c *client) {
	p := w.free(roleDoor)
	j := w.begin(p, nil, c.what)
	c.busy = true
	j.lost = func() { c.busy = false } // no answer comes
	j.next("commit", func(w *World, j *job) {
		if w.fault("the database refuses", oddsCommit) {
			c.busy = false
			w.nak(j, 0)
			return
		}
		run, cause := c.commit(w)
		j.next("answer 2xx", func(w *World, j *job) {
			c.busy = false
			if c.answered && c.run != run {
				w.fail(ExactlyOnce, "%s was answered with run %s and then with %s", c.what, c.run, run)
			}
			c.answered, c.run, c.cause = true, run, cause
			w.end(j)
		})
	})
	w.last = j
}

// start commits a delivery, or finds the one that has the key.
func (d *doorRows) start(key string, ref events.Ref, input []byte) (events.RunID, string) {
	st := trigger.Start{Namespace: trigger.DefaultNamespace, Key: key, Digest: events.DigestOf(input), Strict: true}
	if found, ok := d.deliveries[key]; ok {
		a, err := trigger.Repeat(st, found)
		if err != nil {
			d.w.fail(ExactlyOnce, "a repeat of %s is refused: %v", key, err)
		}
		return a.RunID, trigger.StartCause(a.RunID)
	}
	row := trigger.Delivery{ID: trigger.DeliveryID("d-" + key), Namespace: trigger.DefaultNamespace, Source: trigger.Source{Kind: trigger.SourceAPI, Name: "ann"},
		Key: key, Digest: st.Digest, RunID: runID(len(d.deliveries) + 1), Ref: ref, Input: input, Principal: "ann", AcceptedAt: d.w.now}
	d.deliveries[key] = row
	d.owe(row.RunID, trigger.StartCause(row.RunID), func(msgID string) events.Message {
		m, err := trigger.StartMessage(row)
		if err != nil {
			d.w.fail(NothingLost, "%v", err)
		}
		m.MsgID = msgID
		return m
	})
	return row.RunID, trigger.StartCause(row.RunID)
}

// command commits an order behind those to its run, or finds the one that has the key.
func (d *doorRows) command(key, kind string, run events.RunID, body func(place int) any) (events.RunID, string) {
	c, ok := d.commands[key]
	if !ok {
		c = console.Command{ID: key, Namespace: trigger.DefaultNamespace, RunID: run, Kind: kind, Principal: "ann", Key: key, CreatedAt: d.w.now}
		if c.Placed() {
			d.places[run]++
			c.Place = d.places[run]
		}
		raw, err := events.Marshal(body(c.Place))
		if err != nil {
			d.w.fail(NothingLost, "%v", err)
		}
		c.Body = raw
		d.commands[key] = c
		if d.w.flaw == NoPlace {
			c.Place = 0
		}
		d.owe(run, c.Cause(), func(msgID string) events.Message { return console.Announcement(c, msgID) })
	}
	return c.RunID, c.Cause()
}

// last is the newest order to a run of these kinds that its runner has recorded.
func (d *doorRows) last(run events.RunID, kinds ...string) (last console.Command) {
	for _, c := range d.commands {
		if c.RunID == run && c.Place > last.Place && slices.Contains(kinds, c.Kind) && d.w.runs.landed(run, c.Cause()) {
			last = c
		}
	}
	return last
}

func (d *doorRows) owe(run events.RunID, cause string, message func(string) events.Message) {
	d.debts = append(d.debts, &debt{run: run, cause: cause, message: message, next: d.w.now})
}

// click is a person's try to decide a question.
func (w *World) click(r *question, decision string) {
	j := w.begin(w.free(roleApprovals), nil, fmt.Sprintf("a person says %s to %s", decision, r.ID))
	r.busy = true
	j.lost = func() { r.busy = false }
	j.next("decide", func(w *World, j *job) {
		if w.fault("the database refuses", oddsCommit) {
			r.busy = false
			w.nak(j, 0)
			return
		}
		o := w.asked.decide(approvals.Attempt{ID: r.ID, Namespace: r.Namespace, Decision: decision, Digest: r.Digest, By: "bob", Role: "approver", Door: "api"})
		j.next("answer "+string(o), func(w *World, j *job) {
			r.busy = false
			w.onDecision(r, decision, o)
			w.end(j)
		})
	})
	w.last = j
}
