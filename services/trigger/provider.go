package trigger

import (
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Provider is one sender's way to sign, name and shape its webhooks. A provider
// is pure and safe for concurrent use; one provider is one file in webhook/.
type Provider interface {
	// Name is the value of "provider" in a Webhook document.
	Name() string
	// Verify reports whether one of the check's secrets signed the raw bytes of
	// r. It returns nil, an error that wraps ErrSignature or ErrStale, or
	// another error when the webhook itself is set up wrongly.
	Verify(r Request, c Check) error
	// Event reads a verified request. Errors are Refusals.
	Event(r Request, c Check) (Event, error)
}

// Signer is a Provider that can sign as its sender does, for test-sends.
type Signer interface {
	// Sign adds to r's headers what Verify wants, by the first secret of c, and
	// where the provider has one, the id of the delivery.
	Sign(r *Request, c Check, id string) error
}

// Request is one HTTP request at a webhook's door. Nothing in it was believed yet.
type Request struct {
	Method string
	Header http.Header
	Query  url.Values
	// RawQuery is the query as it was sent, which some senders sign.
	RawQuery string
	Body     []byte    // the raw bytes, as they were signed
	At       time.Time // when it arrived
	Began    time.Time // when its head had arrived; zero means now
	Remote   string    // the peer's address
}

// Check is what an operator configured about a webhook's signature.
type Check struct {
	Secrets   []string      // all are good at once, so that a secret can be rotated
	Tolerance time.Duration // how far a signed time may be from now, both ways; zero means five minutes
	// PublicURL is the address that the sender was given, without a query.
	PublicURL string
	HMAC      spec.Signature // how an unnamed sender signs; its zero fields mean the provider's defaults
}

// Event is what a verified request says.
type Event struct {
	// ID is the provider's id of this delivery, the same on each retry; empty
	// when the provider has none.
	ID string
	// Body is the payload as JSON: what templates call body.
	Body json.RawMessage
	// Items, when set, are the events of a delivery that holds a list of them; ID
	// and Body are then of the whole.
	Items []Event
	// Reply, when set, is the answer to a handshake or ping that starts nothing.
	Reply json.RawMessage
	// Thanks, when set, is how the sender wants an accepted event to be answered.
	Thanks *Thanks
}

// Thanks is an answer in a sender's own form.
type Thanks struct{ ContentType, Body string }
