package console

import "time"

// States of a callback.
const (
	CallbackOwed      = "owed"     // nothing was tried yet; the run may not have ended
	CallbackRetrying  = "retrying" // tried, not taken, tried again at NextAttempt
	CallbackDelivered = "delivered"
	CallbackFailed    = "failed" // given up, or the receiver wanted no more
)

// Callback is what became of posting a run's end.
type Callback struct {
	URL         string
	State       string
	Attempts    int
	NextAttempt time.Time // zero for none
	LastError   string
}
