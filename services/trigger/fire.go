package trigger

import (
	"fmt"
	"iter"
	"strconv"
	"time"
)

// Forms of nominal times: the wall time that a cron expression names, and the
// instant, in UTC, that an interval reaches.
const (
	cronNominal     = "2006-01-02T15:04"
	intervalNominal = "2006-01-02T15:04:05Z"
)

// Fire is one moment at which a schedule fires. Nominal and Fold are its
// identity.
type Fire struct {
	At      time.Time
	Nominal string // the time that was asked for: "2026-03-08T02:00", of an interval "2026-03-08T02:00:00Z"
	Fold    int    // 1 on the second pass of a wall time that occurs twice
	Shifted bool   // the wall time was skipped by the clock; At is later
}

// Key is the dedupe key of a fire.
func (f Fire) Key() string { return f.Nominal + "/" + strconv.Itoa(f.Fold) }

// wall is the day and the time of day of a fire's nominal time, on the
// schedule's wall clock.
func (def Schedule) wall(f Fire) (day, clock string, err error) {
	if len(f.Nominal) == len(intervalNominal) {
		t, err := time.Parse(intervalNominal, f.Nominal)
		if err != nil {
			return "", "", fmt.Errorf("nominal time %q of schedule %s: %w", f.Nominal, def.Name, err)
		}
		zone, err := time.LoadLocation(def.TimeZone)
		if err != nil {
			return "", "", fmt.Errorf("schedule %s: %w", def.Name, err)
		}
		f.Nominal = t.In(zone).Format(cronNominal)
	}
	if len(f.Nominal) != len(cronNominal) || f.Nominal[10] != 'T' {
		return "", "", fmt.Errorf("nominal time %q of schedule %s", f.Nominal, def.Name)
	}
	return f.Nominal[:10], f.Nominal[11:], nil
}

// Planner knows when expressions fire.
type Planner interface {
	// Fires yields the fires of a cron expression later than after, in order.
	Fires(expr, zone string, after time.Time) (iter.Seq[Fire], error)
}
