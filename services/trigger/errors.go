package trigger

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrNotFound says that there is no such definition or row.
	ErrNotFound = errors.New("not found")
	// ErrSignature says that no secret of the webhook signed the request.
	ErrSignature = errors.New("signature does not match")
	// ErrStale says that a signature is good and its time is not.
	ErrStale = errors.New("signed time is outside the tolerance")
	// ErrMisconfigured says that a definition cannot be served as it is, through
	// no fault of who sent the request.
	ErrMisconfigured = errors.New("misconfigured")
	// ErrKeyReused says that a dedupe key came back with another request.
	ErrKeyReused = errors.New("key was used for another request")
)

// Unsigned is a request without a header that its signature needs. It wraps
// ErrSignature.
type Unsigned struct{ Header string }

func (u *Unsigned) Error() string {
	return fmt.Sprintf("%v: the header %s is missing", ErrSignature, u.Header)
}

// Unwrap returns ErrSignature.
func (*Unsigned) Unwrap() error { return ErrSignature }

// Codes of Refusals. They are stable: callers branch on them.
const (
	CodeUnknownTarget   = "unknown_target"
	CodeUnknownWebhook  = "unknown_webhook"
	CodeUnknownSched    = "unknown_schedule"
	CodeInvalidJSON     = "invalid_json"
	CodeInvalidText     = "invalid_text"
	CodeInvalidInput    = "invalid_input"
	CodeInvalidLabels   = "invalid_labels"
	CodeInvalidKey      = "invalid_idempotency_key"
	CodeKeyReused       = "idempotency_key_reused"
	CodeInvalidCallback = "invalid_callback"
	CodeInvalidDeadline = "invalid_deadline"
	CodeInvalidPriority = "invalid_priority"
	CodeInvalidSignal   = "invalid_signal"
	CodeMapping         = "mapping_failed"
	CodeMediaType       = "unsupported_media_type"
	CodeSignature       = "bad_signature"
	CodeStale           = "stale_signature"
	CodeTooLarge        = "body_too_large"
	CodeUnknownDelivery = "unknown_delivery"
	CodeNoReplay        = "not_replayable"
	CodeNoTest          = "no_test_send"
)

// Refusal is a request that no retry can make good. The message says what, where
// and what to do next, and is meant for the sender.
type Refusal struct {
	Code    string
	Message string
	// Places names each part of the input that is wrong.
	Places []Place
	// After, when set, is when the same request may be taken.
	After time.Duration
	err   error
}

// Place is one wrong part of an input.
type Place struct {
	Path    string // "input.shop"
	Message string
}

func (r *Refusal) Error() string {
	s := r.Message
	for _, p := range r.Places {
		s += fmt.Sprintf("; %s: %s", p.Path, p.Message)
	}
	return s
}

func (r *Refusal) Unwrap() error { return r.err }

// Refuse builds a Refusal.
func Refuse(code, format string, args ...any) *Refusal {
	err := fmt.Errorf(format, args...)
	return &Refusal{Code: code, Message: err.Error(), err: errors.Unwrap(err)}
}

// AsRefusal returns the Refusal in err's chain.
func AsRefusal(err error) (*Refusal, bool) { return errors.AsType[*Refusal](err) }
