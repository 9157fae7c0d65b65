package spec

import "github.com/holdfast-run/holdfast/pkg/events"

func (d *decoder) priority(s spot, p string) {
	if p != "" {
		d.oneOf(s, p, events.Priorities...)
	}
}
