package cron

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The oracle knows nothing of gaps, periods or bits. It walks real time minute by
// minute, which is never ambiguous, notes the wall clock at each, and applies the
// rules of the package comment to what it saw.
type oracle struct {
	minute, hour func(int) bool
	interval     bool
}

func (o oracle) fires(loc *time.Location, from, to time.Time) []Fire {
	seen := map[string]bool{}
	var out []Fire
	before := from.Add(-time.Minute).In(loc)
	for at := from; at.Before(to); at = at.Add(time.Minute) {
		local := at.In(loc)
		_, was := before.Zone()
		_, is := local.Zone()
		if gap := is - was; gap > 0 && gap <= 3*3600 && !o.interval {
			// The wall times that this jump left out fire late by the gap.
			for skipped := range gap / 60 {
				civil := time.Date(before.Year(), before.Month(), before.Day(), before.Hour(), before.Minute()+1+skipped, 0, 0, time.UTC)
				if o.minute(civil.Minute()) && o.hour(civil.Hour()) {
					late := at.Add(time.Duration(skipped) * time.Minute)
					out = append(out, Fire{At: late, Nominal: civil.Format(nominalFormat), Shifted: true})
				}
			}
		}
		before = local
		nominal := local.Format(nominalFormat)
		again := seen[nominal]
		seen[nominal] = true
		if !o.minute(local.Minute()) || !o.hour(local.Hour()) || again && !o.interval {
			continue
		}
		f := Fire{At: at, Nominal: nominal}
		if again {
			f.Fold = 1
		}
		out = append(out, f)
	}
	return out
}

func any_(int) bool { return true }

func oneOf(values ...int) func(int) bool {
	return func(v int) bool {
		for _, w := range values {
			if v == w {
				return true
			}
		}
		return false
	}
}

func every(n int) func(int) bool { return func(v int) bool { return v%n == 0 } }

// Around every change of eleven zones in two years, the schedule and the oracle
// name the same fires.
func TestAll_AgreesWithAWalkThroughRealTime(t *testing.T) {
	t.Parallel()
	schedules := map[string]oracle{
		"30 2 * * *":         {minute: oneOf(30), hour: oneOf(2)},
		"0,45 0,1,2,3 * * *": {minute: oneOf(0, 45), hour: oneOf(0, 1, 2, 3)},
		"15 23 * * *":        {minute: oneOf(15), hour: oneOf(23)},
		"*/15 * * * *":       {minute: every(15), hour: any_, interval: true},
		"0 */2 * * *":        {minute: oneOf(0), hour: every(2), interval: true},
		"* 1 * * *":          {minute: any_, hour: oneOf(1), interval: true},
	}
	for _, zone := range []string{
		"America/New_York", "Europe/London", "Europe/Berlin", "Australia/Lord_Howe", "America/Santiago", "Africa/Cairo",
		"America/Havana", "America/Nuuk", "Antarctica/Troll", "Africa/Casablanca", "Pacific/Chatham",
	} {
		t.Run(strings.ReplaceAll(zone, "/", "_"), func(t *testing.T) {
			t.Parallel()
			loc, err := time.LoadLocation(zone)
			if err != nil {
				t.Fatal(err)
			}
			changes := 0
			at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			for {
				_, change := at.In(loc).ZoneBounds()
				if change.IsZero() || change.Year() > 2027 {
					break
				}
				changes++
				from, to := change.Add(-30*time.Hour).UTC(), change.Add(30*time.Hour).UTC()
				for expr, o := range schedules {
					s := parse(t, expr, zone)
					var got []Fire
					for f := range s.All(from.Add(-time.Second)) {
						if !f.At.Before(to) {
							break
						}
						f.At = f.At.UTC()
						got = append(got, f)
					}
					want := o.fires(loc, from, to)
					if len(want) == 0 {
						t.Fatalf("%s around %s: the oracle sees no fire", expr, change)
					}
					byTime := func(a, b Fire) int {
						if c := a.At.Compare(b.At); c != 0 {
							return c
						}
						return strings.Compare(a.Nominal, b.Nominal)
					}
					sortFires(want, byTime)
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("%s around %s (-want +got):\n%s", expr, change, diff)
					}
				}
				at = change
			}
			if changes == 0 {
				t.Errorf("%s has no change in two years: not a case", zone)
			}
		})
	}
}
