package trigger

import (
	"iter"
	"strconv"
	"time"
)

// Fire is one moment at which a schedule fires. Nominal and Fold are its
// identity.
type Fire struct {
	At      time.Time
	Nominal string // wall time that was asked for: "2026-03-08T02:00"
	Fold    int    // 1 on the second pass of a wall time that occurs twice
	Shifted bool   // the wall time was skipped by the clock; At is later
}

// Key is the dedupe key of a fire.
func (f Fire) Key() string { return f.Nominal + "/" + strconv.Itoa(f.Fold) }

// Planner knows when expressions fire.
type Planner interface {
	// Fires yields the fires of a cron expression later than after, in order.
	Fires(expr, zone string, after time.Time) (iter.Seq[Fire], error)
}
