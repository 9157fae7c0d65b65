package approvals

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-run/holdfast/pkg/spec"
)

// ErrNoChannel says that there is no such channel, or that it cannot be used: its
// definition may be applied or mended while the message waits.
var ErrNoChannel = errors.New("no such channel")

// Channel sends messages to people in one way.
type Channel interface {
	// Runs reports whether it is the one for a definition.
	Runs(c *spec.Channel) bool
	// Repeats reports whether who receives can tell a repeat of a message by its id,
	// so that sending it again does no harm.
	Repeats() bool
	// Send makes one attempt and never repeats by itself.
	Send(ctx context.Context, c *spec.Channel, m Message) Delivery
}

// Updater is a channel that can change a message that it has sent.
type Updater interface {
	// Update shows m in place of the message. Doing it again changes nothing.
	Update(ctx context.Context, c *spec.Channel, receipt string, m Message) Delivery
}

// Verdict says what one attempt came to.
type Verdict int

const (
	NotTaken  Verdict = iota // surely not taken: again, later
	Taken                    // the other side has it
	Refused                  // it will never be taken
	Uncertain                // it may have been taken
)

// Delivery is what one attempt came to.
type Delivery struct {
	Verdict    Verdict
	RetryAfter time.Duration // the other side's wish; zero for none
	Problem    string        // without secrets
	Receipt    string        // what an Updater needs later; empty when nothing can be changed
}

// Bounds of the attempts of a message.
const (
	attemptTime = 15 * time.Second
	// attemptLease is after which an attempt that nobody reported is lost.
	attemptLease = 45 * time.Second
	noticeAge    = 24 * time.Hour
	maxWait      = time.Hour
)

var noticeWaits = []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour}

// Result is what an attempt makes of a notice.
type Result struct {
	State string
	Wait  time.Duration // with NoticeDue
}

// Conclude says what becomes of a notice after its n-th attempt, age after it was
// stored. It is pure. What may have been taken is sent again only where a repeat
// is told from the first.
func Conclude(d Delivery, repeats bool, n int, age time.Duration) Result {
	switch {
	case d.Verdict == Taken:
		return Result{State: NoticeDelivered}
	case d.Verdict == Refused:
		return Result{State: NoticeFailed}
	case d.Verdict == Uncertain && !repeats:
		return Result{State: NoticeUnknown}
	}
	wait := max(noticeWaits[min(max(n, 1), len(noticeWaits))-1], min(d.RetryAfter, maxWait))
	if age+wait > noticeAge {
		return Result{State: NoticeFailed}
	}
	return Result{State: NoticeDue, Wait: wait}
}
