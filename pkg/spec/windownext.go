package spec

import "time"

// Next is when the window after the one that holds t begins; the zero time for
// a budget without windows.
func (b *Budget) Next(t time.Time) time.Time {
	if b.Window == nil {
		return time.Time{}
	}
	loc, err := loadZone(b.Window.TimeZone)
	if err != nil {
		loc = time.UTC // the zone was checked when the definition was read
	}
	hours := []int64{b.Window.StartHour}
	if len(b.Window.Parts) > 0 {
		hours = nil
	}
	for _, p := range b.Window.Parts {
		hours = append(hours, p.StartHour)
	}
	y, m, day := t.In(loc).Date()
	var next time.Time
	for ahead := range 3 {
		for _, hour := range hours {
			if at := wallHour(y, m, day+ahead, int(hour), loc); at.After(t) && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
	}
	return next
}
