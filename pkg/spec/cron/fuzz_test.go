package cron

import (
	"slices"
	"testing"
	"time"
)

func sortFires(fires []Fire, by func(a, b Fire) int) { slices.SortStableFunc(fires, by) }

// Whatever is typed: no panic, no endless search, and what parses fires in order.
func FuzzParse(f *testing.F) {
	for _, expr := range []string{
		"TZ=0", "TZ=", "CRON_TZ=Europe/London */5 1-2 L,15W * 5#3", "0 0 29 2 *", "0 0 31 4 *", "30 2,3 * * *",
		"@every 0s", "@daily", "* * * * * *", "60 * * * *", "0 0 L-30 2 MONL", "\x00 * * * *", "0 0 * 2 1#5",
	} {
		f.Add(expr, "America/New_York", int64(1_772_900_000))
	}
	f.Fuzz(func(t *testing.T, expr, zone string, at int64) {
		s, err := Parse(expr, zone)
		if err != nil {
			return
		}
		after := time.Unix(at%(1<<33), 0)
		for _, fire := range s.After(after, 3) {
			if fire.At.Before(after) {
				t.Errorf("%q after %s fires at %s", expr, after, fire.At)
			}
			after = fire.At
		}
	})
}
