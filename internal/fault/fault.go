// Package fault names the kinds of failure that decide what happens to a
// message or a request. Whatever carries no kind is retryable.
//
// internal/bus alone maps kinds to acknowledgements; HTTP doors map them to
// status codes.
package fault

import (
	"errors"
	"time"
)

// ErrLost says that somebody else owns the work now (a newer epoch, another
// winner). The message is dropped silently: no ack, no nak, no publish, because
// JetStream lets a stale acknowledgement remove what another worker is doing.
var ErrLost = errors.New("ownership lost")

// ErrTurn says that others come first: nothing went wrong, and the message is
// delivered again after the wait that goes with it.
var ErrTurn = errors.New("its turn comes later")

type terminal struct {
	code string
	err  error
}

func (t *terminal) Error() string { return t.code + ": " + t.err.Error() }
func (t *terminal) Unwrap() error { return t.err }

// Terminal marks err as a failure that no retry can cure. The code is stable
// and documented ("decode", "unknown_run").
func Terminal(code string, err error) error { return &terminal{code: code, err: err} }

// TerminalCode returns the code of the outermost terminal fault in err's chain.
func TerminalCode(err error) (code string, ok bool) {
	if t, ok := errors.AsType[*terminal](err); ok {
		return t.code, true
	}
	return "", false
}

type retryAfter struct {
	wait time.Duration
	err  error
}

func (r *retryAfter) Error() string { return r.err.Error() }
func (r *retryAfter) Unwrap() error { return r.err }

// RetryAfter marks err as retryable no sooner than wait. Zero means at once.
// Waits over five seconds belong in a timer row, not in a message.
func RetryAfter(wait time.Duration, err error) error { return &retryAfter{wait: wait, err: err} }

// Wait returns the wait of the outermost RetryAfter in err's chain.
func Wait(err error) (wait time.Duration, ok bool) {
	if r, ok := errors.AsType[*retryAfter](err); ok {
		return r.wait, true
	}
	return 0, false
}
