package web

import (
	"fmt"
	"time"
)

// Span is a duration for people: seconds under a minute, then minutes, hours and days.
// Between number and unit is a no-break space.
func Span(d time.Duration) string {
	d = max(d, 0)
	minutes, hours := int(d/time.Minute), int(d/time.Hour)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d\u00a0s", int(d/time.Second))
	case d < time.Hour:
		return fmt.Sprintf("%d\u00a0min", minutes)
	case hours < 48:
		return fmt.Sprintf("%d\u00a0h %d\u00a0min", hours, minutes%60)
	}
	return fmt.Sprintf("%d\u00a0d %d\u00a0h", hours/24, hours%24)
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
