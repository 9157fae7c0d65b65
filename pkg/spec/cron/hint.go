package cron

import "time"

// EitherDay reports whether day of month and day of week are both restricted,
// and so joined by OR: a day that matches one of them fires.
func (s *Schedule) EitherDay() bool {
	anyDay := s.day.dom == 1<<32-2 // 1 to 31
	return !s.day.joined && !anyDay && s.day.dow != 1<<7-1
}

// Change is a fire of a fixed schedule on a day on which the clocks change its
// wall time.
type Change struct {
	Fire
	Twice bool // the wall time occurs twice, and the fire is on its first pass; else it occurs never, and the fire is late
}

// Changes lists the fires after from and before to, at most limit of them, whose
// wall time a clock change skips or repeats. An interval-like schedule has none:
// it follows real time.
func (s *Schedule) Changes(from, to time.Time, limit int) (changes []Change) {
	if s.interval {
		return nil
	}
	for p := s.periodAt(from); p.end < to.Unix() && len(changes) < limit; {
		next := s.periodAt(time.Unix(p.end, 0))
		// A wall time that the end of p repeats lies this far before it.
		again := p.offset - next.offset
		take := func(f Fire) bool {
			if at := f.At; f.Shifted && at.Unix() >= next.start {
				changes = append(changes, Change{Fire: f})
			} else if again > 0 && at.Unix() < p.end && at.Unix() >= p.end-again {
				changes = append(changes, Change{Fire: f, Twice: true})
			}
			return len(changes) < limit
		}
		if again > 0 {
			s.firesIn(p, max(p.end-again-1, from.Unix()), p.end, take)
		} else {
			s.firesIn(next, next.start-1, min(next.start+maxGap+1, to.Unix()), take)
		}
		p = next
	}
	return changes
}
