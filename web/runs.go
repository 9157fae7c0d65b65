package web

import (
	"fmt"
	"time"
)

// Span is a duration for people, the shorter the more exact: 40 ms, 3.2 s, 42 s,
// 4 min 5 s, 35 min, 5 h 28 min, 3 d 4 h. Between number and unit is a no-break space.
// From ten seconds on it reads as live.js writes it.
func Span(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Millisecond:
		return "0\u00a0s"
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%d\u00a0ms", d/time.Millisecond)
	case d < 10*time.Second:
		return fmt.Sprintf("%d.%d\u00a0s", d/time.Second, d%time.Second/(100*time.Millisecond))
	case d < time.Minute:
		return fmt.Sprintf("%d\u00a0s", d/time.Second)
	case d < 10*time.Minute:
		return twoUnits(int(d/time.Minute), "min", int(d%time.Minute/time.Second), "s")
	case d < time.Hour:
		return fmt.Sprintf("%d\u00a0min", d/time.Minute)
	case d < 24*time.Hour:
		return twoUnits(int(d/time.Hour), "h", int(d%time.Hour/time.Minute), "min")
	}
	return twoUnits(int(d/(24*time.Hour)), "d", int(d%(24*time.Hour)/time.Hour), "h")
}

func twoUnits(n int, unit string, rest int, smaller string) string {
	if rest == 0 {
		return fmt.Sprintf("%d\u00a0%s", n, unit)
	}
	return fmt.Sprintf("%d\u00a0%s %d\u00a0%s", n, unit, rest, smaller)
}

// inputField is a text field of a form of filters, with what is wrong with it.
type inputField struct {
	Name, Title, Value, Hint string
	Most                     int
	Wide                     bool
	Why                      string
}

func fieldOf(name, title, value, hint string, most int, wide bool, wrong map[string]string) inputField {
	return inputField{name, title, value, hint, most, wide, wrong[name]}
}
