package spec

import (
	"encoding/json"
	"time"
)

// HTTPCallback lets the other side of an http tool answer later: it gets an
// address of its own with the request, as ${callback.url}, says that it has
// accepted, and posts the result there when it has one. Meanwhile the call is a
// row.
type HTTPCallback struct {
	// Accepted is a condition over status, headers and body of a 2xx: true says
	// that the result follows. Default: status 202.
	Accepted *Condition `json:"accepted,omitempty"`
	// Within bounds the wait, from the acceptance on; default 1 h. After it
	// nobody knows whether it happened, and inDoubt follows.
	Within Duration `json:"within"`
	// Failed is a condition over headers and body of what is posted: true says
	// that it surely did not happen. Default: all that is posted is a success.
	Failed *Condition `json:"failed,omitempty"`
	// Result is what the call returns, over ${headers...} and ${body...};
	// default the body.
	Result *Template `json:"result,omitempty"`
	// Secrets sign what is posted; any of them may have signed. Without one the
	// address alone proves who posts.
	Secrets []SecretRef `json:"secrets,omitempty"`
	// Signature says how; default HMAC-SHA256 of the body, hex, in X-Signature.
	// Header, Prefix, Encoding and Algorithm only.
	Signature *Signature `json:"signature,omitempty"`
}

// Bounds of a wait for a callback.
const (
	defaultCallbackWait = Duration(time.Hour)
	maxCallbackWait     = 30 * 24 * time.Hour
)

func (c *HTTPCallback) fill() {
	if c.Within == 0 {
		c.Within = defaultCallbackWait
	}
}

// Accepts reports whether an answer says that its result follows.
func (c *HTTPCallback) Accepts(values map[string]json.RawMessage) (bool, error) {
	if c.Accepted == nil {
		return string(values["status"]) == "202", nil
	}
	return c.Accepted.Eval(values)
}

// checkCallback checks the callback and that the request carries its address.
func (h *HTTP) checkCallback(d *decoder, s spot) {
	c := h.Callback
	if c == nil {
		return
	}
	carried := false
	for _, t := range h.templates() {
		for _, p := range t.Paths() {
			carried = carried || p.Root == "callback"
		}
	}
	if !carried {
		d.fail(s, "nothing tells the other side where to post: write ${callback.url} in a header or in the body")
	}
	d.within(s.at("within"), c.Within, time.Second, maxCallbackWait)
	d.compile(s.at("accepted"), c.Accepted, "status", "headers", "body")
	d.compile(s.at("failed"), c.Failed, "headers", "body")
	d.roots(c.Result, "headers", "body")
	d.secrets(s.at("secrets"), c.Secrets)
	if c.Signature == nil {
		return
	}
	at := s.at("signature")
	d.require(s.at("secrets"), len(c.Secrets) > 0, "at least one {env: NAME} or {file: PATH}, to check signatures with")
	c.Signature.check(d, at, "")
	for _, f := range c.Signature.given() {
		switch f.name {
		case "header", "prefix", "encoding", "algorithm":
		default:
			if f.given {
				d.also(at.at(f.name), "means nothing here: an address takes one result, so the body alone is signed")
			}
		}
	}
}
