package spec

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/spec/cron"
)

// maxHints bounds the dates that a hint lists.
const maxHints = 4

// Warnings lists what is valid and may not be what was meant, as seen at now: a
// cron expression that names both a day of the month and of the week, and one
// whose wall time a clock change of the coming year skips or repeats.
func (doc *Document) Warnings(now time.Time) []*Error {
	if doc.Schedule == nil || doc.Schedule.Cron == "" {
		return nil
	}
	parsed, err := cron.Parse(doc.Schedule.Cron, doc.Schedule.TimeZone)
	if err != nil {
		return nil // it was found valid
	}
	var all []*Error
	add := func(text string) {
		w := &Error{File: doc.File, Field: "spec.cron", Message: text}
		if n := doc.root.find(w.Field); n != nil {
			w.Line, w.Column = n.line, n.column
		}
		all = append(all, w)
	}
	if parsed.EitherDay() {
		var next []string
		for _, f := range parsed.After(now, 5) {
			next = append(next, f.At.Format("Mon 2 Jan 2006 15:04"))
		}
		add("day-of-month and day-of-week are both given, and a day that matches either of them fires; the next are " + strings.Join(next, ", "))
	}
	changes := parsed.Changes(now, now.AddDate(1, 0, 0), maxHints)
	for _, c := range changes {
		day, clock := c.Nominal[:10], c.Nominal[11:]
		if c.Twice {
			add(fmt.Sprintf("on %s in %s %s comes twice; it fires once, the first time", day, parsed.Location(), clock))
		} else {
			add(fmt.Sprintf("on %s in %s there is no %s; it fires at %s", day, parsed.Location(), clock, c.At.Format("15:04")))
		}
	}
	return all
}
