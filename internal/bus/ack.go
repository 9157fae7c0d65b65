package bus

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-run/holdfast/internal/fault"
)

// action is what happens to a message after its handler returned.
type action int

const (
	actAck    action = iota // done: it leaves the queue
	actDrop                 // somebody else owns it: say nothing
	actNak                  // deliver it again, after a delay
	actReject               // no retry can cure it: store it, then it leaves the queue
)

const (
	nakFirst = 200 * time.Millisecond
	nakMost  = 5 * time.Second
)

// ruling is one line of the table that rule is.
type ruling struct {
	action action
	delay  time.Duration // of actNak; zero is at once
	code   string        // of actReject
}

// rule maps what a handler returned to an acknowledgement. It is the only place
// that does.
//
//	nil                        acknowledge
//	fault.ErrLost              drop silently: an acknowledgement of ours would remove
//	                           the message that the new owner works on
//	any other, while stopping  deliver again at once; not a failed attempt
//	fault.Terminal             reject: store, then terminate
//	fault.RetryAfter           deliver again after the wait, 5 s at most: a delayed
//	                           message holds a place among the unacknowledged
//	any other                  deliver again after 0.2 s, doubling with each delivery to 5 s
func rule(err error, stopping bool, delivered uint64) ruling {
	switch {
	case err == nil:
		return ruling{action: actAck}
	case errors.Is(err, fault.ErrLost):
		return ruling{action: actDrop}
	case stopping:
		return ruling{action: actNak}
	}
	if code, ok := fault.TerminalCode(err); ok {
		return ruling{action: actReject, code: code}
	}
	if wait, ok := fault.Wait(err); ok {
		return ruling{action: actNak, delay: min(max(wait, 0), nakMost)}
	}
	return ruling{action: actNak, delay: backoff(delivered)}
}

// backoff is 0.2 s for the first delivery, doubling to 5 s.
func backoff(delivered uint64) time.Duration {
	shift := min(max(delivered, 1)-1, 10)
	return min(nakFirst<<shift, nakMost)
}

// spread keeps messages that failed together from coming back together.
func spread(d time.Duration) time.Duration {
	if d < nakFirst {
		return d
	}
	return d - rand.N(d/5)
}

// The acknowledgement protocol of JetStream, sent to a delivery's reply subject.
// Source: NATS documentation, "Consumer details", "AckPolicy".
var (
	wireAck        = []byte("+ACK")
	wireInProgress = []byte("+WPI")
	wireTerm       = []byte("+TERM")
	wireNak        = []byte("-NAK")
)

func wireNakDelay(d time.Duration) []byte {
	if d <= 0 {
		return wireNak
	}
	return fmt.Appendf(nil, `-NAK {"delay": %d}`, d.Nanoseconds())
}
