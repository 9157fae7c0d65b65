package main

import (
	"fmt"

	"github.com/holdfast-run/holdfast/pkg/client"
)

// callbackLine says in one line what became of posting a run's end.
func callbackLine(c *client.Callback) string {
	if c == nil {
		return ""
	}
	s := c.State + " " + c.URL
	if c.Attempts > 0 {
		s += fmt.Sprintf(", attempt %d", c.Attempts)
	}
	if !c.NextAttempt.IsZero() {
		s += ", next at " + stamp(c.NextAttempt)
	}
	if c.LastError != "" {
		s += ": " + cut(clean(c.LastError), 100)
	}
	return s
}
