package sim

import (
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// What internal/bus sets up its streams and consumers with.
const (
	ackWait    = 2 * time.Second
	duplicates = 30 * time.Second
)

// letter is a message in a work queue.
type letter struct {
	events.Message
	seq       uint64
	queue     queue
	delivered uint64
	ready     time.Time // it is delivered from then on
	job       *job      // who has it, nil: nobody; a dead one still keeps it until ready
}

// queue is what one kind of process takes its messages from.
type queue int

const (
	queueRunner queue = iota
	queueStep
	queueTools
	queueControl
	queueApprovals
	queues
)

func queueOf(subject string) (q queue, ok bool) {
	switch head, _, _ := strings.Cut(strings.TrimPrefix(subject, "hf."), "."); {
	case head == "run" && events.IsStep(subject[strings.LastIndexByte(subject, '.')+1:]):
		return queueStep, true
	case head == "run":
		return queueRunner, true
	case head == "tool":
		return queueTools, true
	case head == "toolctl":
		return queueControl, true
	case head == "approval":
		return queueApprovals, true
	}
	return 0, false
}

// stream is where a queue's messages are stored and their repeats found.
func (q queue) stream() int { return [...]int{0, 0, 1, 1, 2}[q] }

// bus is NATS: it stores a message, hands it to one process, and hands it out again
// until somebody acknowledges it.
type bus struct {
	seq     uint64
	letters []*letter // in the order they were stored
	seen    [3]map[string]time.Time
}

func newBus() *bus {
	return &bus{seen: [3]map[string]time.Time{{}, {}, {}}}
}

// store keeps m; false when the stream takes it for a repeat.
func (b *bus) store(m events.Message, now time.Time) (*letter, bool) {
	q, ok := queueOf(m.Subject)
	if !ok {
		return nil, false
	}
	seen := b.seen[q.stream()]
	if at, ok := seen[m.MsgID]; ok && m.MsgID != "" && now.Sub(at) < duplicates {
		return nil, false
	}
	seen[m.MsgID] = now
	b.seq++
	l := &letter{Message: m, seq: b.seq, queue: q, ready: now}
	b.letters = append(b.letters, l)
	return l, true
}

// remove takes a message away, whoever has it: an acknowledgement names the message
// and not the delivery.
func (b *bus) remove(l *letter) {
	for i, x := range b.letters {
		if x == l {
			b.letters = append(b.letters[:i], b.letters[i+1:]...)
			return
		}
	}
}
