package cron

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrNeverFires says that an expression is well formed and matches no day, such
// as 30 February.
var ErrNeverFires = errors.New("this expression never fires")

// maxLength bounds an expression; the longest useful one is far shorter.
const maxLength = 500

// Schedule is a parsed expression in a time zone. It is immutable and safe for
// concurrent use.
type Schedule struct {
	minute, hour uint64 // one bit per value
	day          days
	// interval says that the schedule follows real time: its minute or hour
	// field begins with "*".
	interval bool
	loc      *time.Location
}

var macros = map[string]string{
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
	"@monthly":  "0 0 1 * *",
	"@weekly":   "0 0 * * 0",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@hourly":   "0 * * * *",
}

// Parse reads an expression. zone is an IANA name, empty for UTC; a CRON_TZ= (or
// TZ=) prefix of the expression wins over it. The error names the field; it
// wraps ErrNeverFires for an expression that matches no day.
func Parse(expr, zone string) (*Schedule, error) {
	if len(expr) > maxLength {
		return nil, fmt.Errorf("cron expression of %d characters is longer than %d", len(expr), maxLength)
	}
	expr = strings.TrimSpace(expr)
	for _, prefix := range []string{"CRON_TZ=", "TZ="} {
		rest, ok := strings.CutPrefix(expr, prefix)
		if !ok {
			continue
		}
		name, rest, ok := strings.Cut(rest, " ")
		if !ok || name == "" {
			return nil, fmt.Errorf("time zone: %q wants a zone and five fields, like %q", prefix, prefix+"Europe/Berlin 0 2 * * *")
		}
		zone, expr = name, strings.TrimSpace(rest)
		break
	}
	loc, err := Zone(zone)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(expr, "@") {
		fields, ok := macros[strings.ToLower(expr)]
		if !ok {
			return nil, fmt.Errorf("unknown macro %.40q; known are @hourly, @daily, @weekly, @monthly, @yearly", expr)
		}
		expr = fields
	}
	f := strings.Fields(expr)
	if len(f) != 5 {
		return nil, fmt.Errorf("cron expression has %d fields, want 5: minute hour day-of-month month day-of-week", len(f))
	}
	s := &Schedule{loc: loc, interval: f[0][0] == '*' || f[1][0] == '*'}
	if s.minute, err = minutes.parse(f[0]); err != nil {
		return nil, err
	}
	if s.hour, err = hours.parse(f[1]); err != nil {
		return nil, err
	}
	if s.day, err = parseDays(f[2], f[3], f[4]); err != nil {
		return nil, err
	}
	if !s.day.everMatches() {
		return nil, fmt.Errorf("day-of-month %q and month %q: %w", f[2], f[3], ErrNeverFires)
	}
	return s, nil
}

// Zone loads an IANA time zone, UTC for the empty name. "Local" is refused: a
// schedule must not depend on the machine that runs it.
func Zone(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	if name == "Local" {
		return nil, errors.New(`time zone: "Local" depends on the machine; name a zone like "Europe/Berlin"`)
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("time zone: %.60q is not a zone of the IANA database, like %q", name, "Europe/Berlin")
	}
	return loc, nil
}

// Location is the zone the schedule runs in.
func (s *Schedule) Location() *time.Location { return s.loc }
