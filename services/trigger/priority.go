package trigger

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// checkPriority refuses a priority that is none. What the run gets is the runner's to
// say: a start lowers what its definition says and never lifts it.
func checkPriority(p string) error {
	if p == "" || slices.Contains(events.Priorities, p) {
		return nil
	}
	r := Refuse(CodeInvalidPriority, "the priority of this start cannot be used")
	r.Places = []Place{{Path: "priority", Message: fmt.Sprintf("%.40q: want %s", p, strings.Join(events.Priorities, " or "))}}
	return r
}
