package cron

import (
	"iter"
	"math"
	"math/bits"
	"time"
)

// Fire is one moment at which a schedule fires. Nominal and Fold are its
// identity; At may move when the zone's rules change.
type Fire struct {
	At      time.Time // in the schedule's zone
	Nominal string    // the wall time that was asked for: "2026-03-08T02:00"
	Fold    int       // 1 on the second pass of a wall time that occurs twice
	Shifted bool      // the wall time was skipped by the clock; At is later by the gap
}

const (
	nominalFormat = "2006-01-02T15:04"
	maxGap        = 3 * 3600 // seconds; a longer jump is a lost civil day and skips
	horizonYears  = 12       // the longest gap between leap days is 8 years
)

// After returns the first n fires later than after, in order; fewer when the
// next twelve years hold fewer.
func (s *Schedule) After(after time.Time, n int) []Fire {
	if n <= 0 {
		return nil
	}
	fires := make([]Fire, 0, min(n, 64))
	for f := range s.All(after) {
		fires = append(fires, f)
		if len(fires) == n {
			break
		}
	}
	return fires
}

// All yields every fire later than after, in order of At, for twelve years.
// Fires at one instant come in the order of their nominal times.
//
// It walks the zone's periods of constant offset instead of asking time.Date for
// each wall time: time.Date does not promise which side of a gap or an overlap
// it picks, and picks differently per zone.
func (s *Schedule) All(after time.Time) iter.Seq[Fire] {
	return func(yield func(Fire) bool) {
		horizon := after.AddDate(horizonYears, 0, 0).Unix()
		for p := s.periodAt(after); p.start < horizon; {
			if !s.firesIn(p, after.Unix(), horizon, yield) || p.end == math.MaxInt64 {
				return
			}
			p = s.periodAt(time.Unix(p.end, 0))
		}
	}
}

// period is a stretch of time in which the zone's offset does not change. All
// values are seconds. Civil time is instant + offset.
type period struct {
	start, end int64 // instants; MinInt64 and MaxInt64 where the zone has no bound
	offset     int64
	before     int64 // offset of the period before; offset itself for the first
}

func (s *Schedule) periodAt(t time.Time) period {
	t = t.In(s.loc)
	start, end := t.ZoneBounds()
	p := period{start: math.MinInt64, end: math.MaxInt64, offset: offset(t)}
	p.before = p.offset
	if !start.IsZero() {
		p.start, p.before = start.Unix(), offset(start.Add(-time.Second))
	}
	if !end.IsZero() {
		p.end = end.Unix()
	}
	return p
}

func offset(t time.Time) int64 { _, o := t.Zone(); return int64(o) }

// firesIn yields the fires of one period with after < At < horizon. It returns
// false when the consumer has enough.
func (s *Schedule) firesIn(p period, after, horizon int64, yield func(Fire) bool) bool {
	from, to := max(p.start, after+1), min(p.end, horizon)
	shifted := s.shiftedInto(p)
	next := func(until int64) bool { // shifted fires up to and at an instant
		for len(shifted) > 0 && shifted[0].At.Unix() <= until {
			f := shifted[0]
			shifted = shifted[1:]
			if at := f.At.Unix(); at >= from && at < to && !yield(f) {
				return false
			}
		}
		return true
	}
	for civil := range s.civilMinutes(from+p.offset, to+p.offset) {
		at := civil - p.offset
		// A wall time before the civil end of the last period has been there.
		again := p.start != math.MinInt64 && civil < p.start+p.before
		if again && !s.interval {
			continue
		}
		if !next(at) || !yield(s.fire(at, civil, again, false)) {
			return false
		}
	}
	return next(to)
}

// shiftedInto returns the fires of wall times that the jump at the start of p
// skipped, each later by the length of the jump.
func (s *Schedule) shiftedInto(p period) []Fire {
	gap := p.offset - p.before
	if s.interval || gap <= 0 || gap > maxGap {
		return nil
	}
	var fires []Fire
	for civil := range s.civilMinutes(p.start+p.before, p.start+p.offset) {
		fires = append(fires, s.fire(civil-p.before, civil, false, true))
	}
	return fires
}

func (s *Schedule) fire(at, civil int64, again, shifted bool) Fire {
	f := Fire{
		At:      time.Unix(at, 0).In(s.loc),
		Nominal: time.Unix(civil, 0).UTC().Format(nominalFormat),
		Shifted: shifted,
	}
	if again {
		f.Fold = 1
	}
	return f
}

// civilMinutes yields the matching wall times in [from, to), in order, as seconds
// since the epoch read as if the zone were UTC.
func (s *Schedule) civilMinutes(from, to int64) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		t := time.Unix(from, 0).UTC()
		day := time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
		for ; day.Unix() < to; day = day.AddDate(0, 0, 1) {
			if !s.day.hasMonth(day.Month()) {
				day = time.Date(day.Year(), day.Month()+1, 0, 0, 0, 0, 0, time.UTC) // its last day
				continue
			}
			if !s.day.match(day.Year(), day.Month(), day.Day(), day.Weekday()) {
				continue
			}
			for h := s.hour; h != 0; h &= h - 1 {
				hour := day.Unix() + 3600*int64(bits.TrailingZeros64(h))
				if hour+3600 <= from {
					continue
				}
				for m := s.minute; m != 0; m &= m - 1 {
					civil := hour + 60*int64(bits.TrailingZeros64(m))
					if civil < from {
						continue
					}
					if civil >= to || !yield(civil) {
						return
					}
				}
			}
		}
	}
}
