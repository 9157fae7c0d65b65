package spec

import (
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// What a schedule does when its time comes and a run that it started has not
// ended. A run that waits for a person has not ended.
const (
	OverlapSkip        = "skip"        // no run; the reason is kept
	OverlapBufferOne   = "bufferOne"   // one run waits for the end of the run before
	OverlapBufferAll   = "bufferAll"   // all wait, one after the other, up to a cap
	OverlapCancelOther = "cancelOther" // the run before is cancelled; the newest waits for its end
	OverlapAllow       = "allow"       // both run
)

// Overlaps lists the policies.
var Overlaps = []string{OverlapSkip, OverlapBufferOne, OverlapBufferAll, OverlapCancelOther, OverlapAllow}

// MaxBuffer is the highest cap of bufferAll, and its default.
const MaxBuffer = 1000

// Overlap is the policy; in YAML its name, or {policy: bufferAll, cap: 50}.
type Overlap struct {
	Policy string // "" is OverlapSkip
	Cap    int    // of OverlapBufferAll; 0 is MaxBuffer
}

// MarshalJSON writes the YAML form.
func (x Overlap) MarshalJSON() ([]byte, error) {
	if x.Cap == 0 {
		return quote(x.Policy), nil
	}
	return events.Marshal(map[string]any{"policy": x.Policy, "cap": x.Cap})
}

func (x *Overlap) readNode(d *decoder, s spot) {
	switch s.n.kind {
	case textNode:
		d.oneOf(s, s.n.text, Overlaps...)
		x.Policy = s.n.text
	case mapNode:
		var p struct {
			Policy string `json:"policy"`
			Cap    int    `json:"cap"`
		}
		d.into(s, reflectOf(&p))
		d.require(s.at("policy"), p.Policy != "", "one of skip, bufferOne, bufferAll, cancelOther, allow")
		if p.Policy != "" {
			d.oneOf(s.at("policy"), p.Policy, Overlaps...)
		}
		switch {
		case p.Cap == 0:
		case p.Policy != OverlapBufferAll:
			d.fail(s.at("cap"), "belongs to bufferAll")
		case p.Cap < 1 || p.Cap > MaxBuffer:
			d.fail(s.at("cap"), "%d is not between 1 and %d", p.Cap, MaxBuffer)
		}
		x.Policy, x.Cap = p.Policy, p.Cap
	default:
		d.fail(s, "expected skip, bufferOne, bufferAll, cancelOther, allow or {policy: bufferAll, cap: 50}, found %s", describe(s.n))
	}
}

// What becomes of fires that nobody was there to make.
const (
	CatchUpLatest = "latest" // the newest starts
	CatchUpAll    = "all"    // all start, the oldest first, up to a cap
	CatchUpNone   = "none"   // none starts
)

// Defaults and limits of catching up.
const (
	DefaultCatchUpCap = 10
	MaxCatchUpCap     = 1000
	MaxCatchUpWindow  = 30 * 24 * time.Hour
)

// CatchUp says which missed fires still start a run. Those that do not are
// counted and kept with their reason.
type CatchUp struct {
	// Window is how late a fire may be; 0 is the trigger service's setting, an
	// hour unless it was changed.
	Window Duration `json:"window,omitempty"`
	Policy string   `json:"policy,omitempty"` // "" is CatchUpLatest
	Cap    int      `json:"cap,omitempty"`    // of CatchUpAll; 0 is DefaultCatchUpCap
}

func (x *CatchUp) check(d *decoder, s spot) {
	d.within(s.at("window"), x.Window, 10*time.Second, MaxCatchUpWindow)
	if x.Policy != "" {
		d.oneOf(s.at("policy"), x.Policy, CatchUpLatest, CatchUpAll, CatchUpNone)
	}
	switch {
	case x.Cap == 0:
	case x.Policy != CatchUpAll:
		d.fail(s.at("cap"), "belongs to the policy all")
	case x.Cap < 1 || x.Cap > MaxCatchUpCap:
		d.fail(s.at("cap"), "%d is not between 1 and %d", x.Cap, MaxCatchUpCap)
	}
}
