package trigger

import (
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// checkDeadline refuses a deadline that is none. One that has passed is taken: the
// run ends with nothing done, and a repeat gets the same run.
func checkDeadline(text string) error {
	if text == "" {
		return nil
	}
	if _, err := events.ParseDeadline(text); err != nil {
		r := Refuse(CodeInvalidDeadline, "the deadline of this start cannot be used")
		r.Places = []Place{{Path: "deadline", Message: err.Error()}}
		return r
	}
	return nil
}

// deadlineText is a definition's deadline as a start carries it.
func deadlineText(d spec.Duration) string {
	if d == 0 {
		return ""
	}
	return d.Std().String()
}
