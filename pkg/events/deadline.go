package events

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// MaxDeadline is the longest time that a deadline may give a run.
const MaxDeadline = 366 * 24 * time.Hour

// Whose deadline a run has.
const (
	DeadlineOfStart      = "start"      // who started it named it
	DeadlineOfDefinition = "definition" // its agent or flow does
	DeadlineOfParent     = "parent"     // the run that started it has it
)

// Deadline is when a run ends, whatever it does or waits for.
type Deadline struct {
	At   time.Time `json:"at"`
	From string    `json:"from"`
	// AfterMs is what it was counted from the acceptance; 0 for a given moment.
	AfterMs int64 `json:"after_ms,omitempty"`
}

// ParseDeadline reads what a start says about its deadline: a moment as RFC 3339,
// "2026-12-01T08:00:00+01:00", or a time from the acceptance on, "90m" or "2d", of a
// second to MaxDeadline. A moment may have passed: the run then ends with nothing
// done.
func ParseDeadline(text string) (Deadline, error) {
	bad := errors.New(`use a time like "2h" or "2d", or a moment like "2026-12-01T08:00:00Z"`)
	if len(text) > 64 {
		return Deadline{}, fmt.Errorf("has %d bytes; %w", len(text), bad)
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		if at.Year() < 1970 || at.UTC().Year() > 9000 {
			return Deadline{}, fmt.Errorf("%q: the year is out of range; %w", text, bad)
		}
		return Deadline{At: at.UTC().Truncate(time.Microsecond), From: DeadlineOfStart}, nil
	}
	after, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		after = time.Duration(n) * 24 * time.Hour
	}
	if err != nil {
		return Deadline{}, fmt.Errorf("%q: %w", text, bad)
	}
	if after < time.Second || after > MaxDeadline {
		return Deadline{}, fmt.Errorf("%q is outside 1s to 366d", text)
	}
	return Deadline{From: DeadlineOfStart, AfterMs: after.Milliseconds()}, nil
}

// Counted is the deadline of what was accepted at a time: a given moment stays, and
// a time is counted from there.
func (d Deadline) Counted(accepted time.Time) Deadline {
	if d.AfterMs > 0 {
		d.At = accepted.Add(time.Duration(d.AfterMs) * time.Millisecond).UTC().Truncate(time.Microsecond)
	}
	return d
}

// Expiring is a deadline that has passed, and everything it takes back, as a cancel
// does.
type Expiring struct {
	Deadline Deadline `json:"deadline"`
	Cancelling
}
