package spec

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Bounds of what a signal's times may be.
const (
	defaultSignalTimeout = Duration(72 * time.Hour)
	defaultToolTimeout   = Duration(30 * time.Second)
	// DefaultKeepFor is how long a signal that no run waits for is kept.
	DefaultKeepFor = 7 * 24 * time.Hour
	// MaxSignalTime bounds both.
	MaxSignalTime = 90 * 24 * time.Hour
)

// SignalWait makes a tool's call wait for a signal from outside, whose data is
// the call's result.
type SignalWait struct {
	Name string `json:"name"` // of the signal
	// Key over ${args...} says which signals of the name are meant. Without one
	// the call takes only signals that are sent to its run by id.
	Key *Template `json:"key,omitempty"`
	// Timeout ends the call without a signal, as failed; default 72 h.
	Timeout Duration `json:"timeout"`
}

func (w *SignalWait) fill() {
	if w.Timeout == 0 {
		w.Timeout = defaultSignalTimeout
	}
}

func (w *SignalWait) check(d *decoder, s spot, t *Tool, tool spot) {
	d.require(s.at("name"), w.Name != "", "what the signal is called")
	if w.Name != "" {
		d.name(s.at("name"), w.Name)
	}
	if w.Key != nil {
		d.textTemplate(s.at("key"), w.Key)
		d.roots(w.Key, "args")
	}
	d.within(s.at("timeout"), w.Timeout, time.Second, MaxSignalTime)
	if t.Effect != "" && t.Effect != EffectRead {
		d.fail(tool.at("effect"), "waiting for a signal changes nothing: effect must be read")
	}
	if t.Approval.Mode != ApprovalNever {
		d.fail(tool.at("approval"), "waiting for a signal needs no approval: leave it out, and gate the tool that acts")
	}
	if t.Timeout != defaultToolTimeout {
		d.fail(tool.at("timeout"), "bounds an attempt of a call that is sent; how long the signal is waited for is signal.timeout")
	}
}

// WaitKey derives the key of a call that waits; empty when the tool has none.
func (w *SignalWait) WaitKey(args json.RawMessage) (string, error) {
	if w.Key == nil {
		return "", nil
	}
	return SignalKey(w.Key, map[string]json.RawMessage{"args": args})
}

// SignalKey renders the key of a signal, so that the side that waits and the
// side that sends spell the same value the same: a number as events.Canonical
// does. A part that is absent, empty, null, a list or an object is an error, and
// so is a key over events.SignalKeyBytes.
func SignalKey(t *Template, values map[string]json.RawMessage) (string, error) {
	if !t.isText() {
		return "", fmt.Errorf("the key of a signal must be text")
	}
	var w limited
	err := renderText(&w, t.root.pieces, values, func(p Path, raw json.RawMessage) (string, error) {
		canonical, err := events.Canonical(raw)
		if err != nil {
			return "", fmt.Errorf("${%s}: %w", p, err)
		}
		return scalar(p, canonical, false)
	})
	if err != nil {
		return "", err
	}
	return w.String(), CheckSignalKey(w.String())
}

// CheckSignalKey refuses a key that no signal may have. Whether it is text that
// every hop can carry is checked where it comes in.
func CheckSignalKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("the key of a signal is empty")
	case len(key) > events.SignalKeyBytes:
		return fmt.Errorf("the key of a signal has %d bytes; at most %d are allowed", len(key), events.SignalKeyBytes)
	}
	return nil
}

// SignalSend makes a webhook's deliveries signals to runs that wait.
type SignalSend struct {
	Name string `json:"name"` // of the signal
	// Key and Data are over ${body...}, ${headers...} and ${query...}. Data
	// defaults to "${body}".
	Key  *Template `json:"key"`
	Data *Template `json:"data"` // what the model reads; default the body
	// KeepFor is how long a signal is kept while no run waits for it; default 7 d.
	KeepFor Duration `json:"keepFor"`
}

func (x *SignalSend) fill() {
	if x.Data == nil {
		x.Data = mustTemplate(`"${body}"`)
	}
	if x.KeepFor == 0 {
		x.KeepFor = Duration(DefaultKeepFor)
	}
}

func (x *SignalSend) check(d *decoder, s spot, w *Webhook, hook spot) {
	roots := []string{"body", "headers", "query"}
	d.require(s.at("name"), x.Name != "", "what the signal is called; a tool with the same signal.name waits for it")
	if x.Name != "" {
		d.name(s.at("name"), x.Name)
	}
	d.require(s.at("key"), x.Key != nil, `which run is meant, like "${body.order_id}"`)
	if x.Key != nil {
		d.textTemplate(s.at("key"), x.Key)
		d.roots(x.Key, roots...)
	}
	d.roots(x.Data, roots...)
	d.within(s.at("keepFor"), x.KeepFor, time.Minute, MaxSignalTime)
	const about = "is about runs that are started; this webhook signals runs that wait (signal.data is what they get)"
	if w.Input != nil {
		d.fail(hook.at("input"), about)
	}
	if len(w.Labels) > 0 {
		d.fail(hook.at("labels"), about)
	}
	if w.MaxInFlight != 0 {
		d.fail(hook.at("maxInFlight"), about)
	}
	if w.Deadline != 0 {
		d.fail(hook.at("deadline"), about)
	}
	if w.Priority != "" {
		d.fail(hook.at("priority"), about)
	}
}

// checkTarget checks what a webhook's deliveries go to.
func (w *Webhook) checkTarget(d *decoder, s spot) {
	d.exactlyOne(s, map[string]bool{"agent": w.Agent != "", "flow": w.Flow != "", "signal": w.Signal != nil})
	if w.Agent != "" {
		d.name(s.at("agent"), w.Agent)
	}
	if w.Flow != "" {
		d.name(s.at("flow"), w.Flow)
	}
	if w.Signal != nil {
		w.Signal.check(d, s.at("signal"), w, s)
	}
}
