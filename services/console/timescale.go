package console

import (
	"slices"
	"time"
)

// Scale places moments on a line that is 100 wide. Long stretches in which nothing is
// worked on are squeezed, so that the work between them can be seen.
type Scale struct {
	From, To time.Time
	Gaps     []Gap // squeezed, in order
	parts    []stretch
}

// Gap is a squeezed stretch.
type Gap struct {
	From, To  time.Time
	Left      float64 // where it begins
	Width     float64
	Truncated time.Duration // its true length
}

// stretch is a part of the line that is true to scale in itself.
type stretch struct {
	from, to    time.Time
	left, width float64
}

const (
	gapWidth  = 12.0 // of each squeezed stretch
	gapsWidth = 48.0 // of all of them together at most
)

// ScaleOf is the scale of a timeline. A stretch is squeezed when nobody works in it and it
// is longer than all work together, and than 20 s.
func ScaleOf(t Timeline) Scale {
	s := Scale{From: t.From, To: t.To}
	if !t.To.After(t.From) {
		s.To = t.From.Add(time.Second)
	}
	busy, worked := working(t, s.From, s.To)
	long := max(worked, 20*time.Second)
	var idle []stretch
	for i := range len(busy) + 1 {
		from, to := s.From, s.To
		if i > 0 {
			from = busy[i-1].to
		}
		if i < len(busy) {
			to = busy[i].from
		}
		if to.Sub(from) > long && worked > 0 {
			idle = append(idle, stretch{from: from, to: to})
		}
	}
	width := gapWidth
	if n := float64(len(idle)); n*width > gapsWidth {
		width = gapsWidth / n
	}
	rest := s.To.Sub(s.From)
	for _, g := range idle {
		rest -= g.to.Sub(g.from)
	}
	perNano := (100 - width*float64(len(idle))) / float64(max(rest, 1))
	at, left := s.From, 0.0
	linear := func(to time.Time) {
		if to.After(at) {
			p := stretch{from: at, to: to, left: left, width: float64(to.Sub(at)) * perNano}
			s.parts, left = append(s.parts, p), left+p.width
		}
	}
	for _, g := range idle {
		linear(g.from)
		s.parts = append(s.parts, stretch{g.from, g.to, left, width})
		s.Gaps = append(s.Gaps, Gap{From: g.from, To: g.to, Left: left, Width: width, Truncated: g.to.Sub(g.from)})
		at, left = g.to, left+width
	}
	linear(s.To)
	return s
}

// working lists when anything is worked on, without overlaps, and for how long in all.
func working(t Timeline, from, to time.Time) (out []stretch, worked time.Duration) {
	var all []stretch
	for _, line := range t.Lines {
		for _, b := range line.Bars {
			if b.Kind != BarPerson && b.Kind != BarIdle {
				all = append(all, stretch{from: maxTime(b.From, from), to: minTime(b.To, to)})
			}
		}
	}
	slices.SortFunc(all, func(a, b stretch) int { return a.from.Compare(b.from) })
	for _, p := range all {
		switch {
		case p.to.Before(p.from):
		case len(out) > 0 && !p.from.After(out[len(out)-1].to):
			out[len(out)-1].to = maxTime(out[len(out)-1].to, p.to)
		default:
			out = append(out, p)
		}
	}
	for _, p := range out {
		worked += p.to.Sub(p.from)
	}
	return out, worked
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// X is where a moment is, 0 to 100.
func (s Scale) X(at time.Time) float64 {
	for _, p := range s.parts {
		if at.Before(p.from) {
			return p.left
		}
		if !at.After(p.to) {
			return min(p.left+p.width*float64(at.Sub(p.from))/float64(p.to.Sub(p.from)), 100)
		}
	}
	return 100
}

var tickSteps = []time.Duration{
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 4 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 48 * time.Hour, 7 * 24 * time.Hour, 28 * 24 * time.Hour,
}

// Ticks are round moments outside what is squeezed, at least 17 of the line apart, and how
// far they are apart in time.
func (s Scale) Ticks() (out []time.Time, step time.Duration) {
	const apart = 17.0
	var rest time.Duration
	for _, p := range s.parts {
		if !s.squeezed(p) {
			rest += p.to.Sub(p.from)
		}
	}
	step = tickSteps[len(tickSteps)-1]
	for i := len(tickSteps) - 1; i >= 0 && rest/tickSteps[i] < 6; i-- {
		step = tickSteps[i]
	}
	last := -apart
	for _, p := range s.parts {
		if s.squeezed(p) {
			last = p.left + p.width - apart/2
			continue
		}
		for at := p.from.Truncate(step); !at.After(p.to); at = at.Add(step) {
			if x := s.X(at); !at.Before(p.from) && x-last >= apart && x <= p.left+p.width-apart/2 {
				out, last = append(out, at), x
			}
		}
	}
	return out, step
}

func (s Scale) squeezed(p stretch) bool {
	return slices.ContainsFunc(s.Gaps, func(g Gap) bool { return g.From.Equal(p.from) })
}
