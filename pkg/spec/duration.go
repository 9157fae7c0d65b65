package spec

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Duration is a length of time, written like "30s", "1h30m" or "7d" (a day is
// 24 hours).
type Duration time.Duration

// Std is the duration as the standard library knows it.
func (x Duration) Std() time.Duration { return time.Duration(x) }

// String is the shortest form that reads back as the same duration.
func (x Duration) String() string {
	s := time.Duration(x).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalJSON writes the form of String, so that equal durations have one digest.
func (x Duration) MarshalJSON() ([]byte, error) { return quote(x.String()), nil }

func (x *Duration) readNode(d *decoder, s spot) {
	if s.n.kind == numberNode {
		d.fail(s, "expected a duration with its unit like \"30s\" or \"5m\", found %s", shorten(s.n.text))
		return
	}
	if !d.want(s, textNode) {
		return
	}
	v, err := parseDuration(s.n.text)
	if err != nil {
		d.fail(s, "%q is not a duration like \"30s\", \"5m\", \"72h\" or \"7d\"", shorten(s.n.text))
		return
	}
	*x = Duration(v)
}

func parseDuration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil {
			return 0, fmt.Errorf("days: %w", err)
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	return time.ParseDuration(text)
}

// within checks a duration's range; 0 counts as absent and passes.
func (d *decoder) within(s spot, x Duration, low, high time.Duration) {
	if x != 0 && (x.Std() < low || x.Std() > high) {
		d.fail(s, "%s is outside %s to %s", x, Duration(low), Duration(high))
	}
}
