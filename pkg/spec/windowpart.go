package spec

import "time"

// WindowPart is a part of a budget's day, "day" or "night".
type WindowPart struct {
	Name      string `json:"name"`      // of the part, like day or night
	StartHour int64  `json:"startHour"` // 0 to 23
	Limit     Limit  `json:"limit"`     // of this part
}

// Ceiling is the limit of a budget whose window has no parts, as it is counted: in
// whole units, and in micro-dollars.
func (b *Budget) Ceiling() int64 { return b.counted(b.Limit) }

// CeilingAt is the limit of the window that holds t.
func (b *Budget) CeilingAt(t time.Time) int64 {
	if b.Window == nil || len(b.Window.Parts) == 0 {
		return b.Ceiling()
	}
	loc, err := loadZone(b.Window.TimeZone)
	if err != nil {
		loc = time.UTC // the zone was checked when the definition was read
	}
	_, part := b.Window.part(t, loc)
	return b.counted(part.Limit)
}

func (b *Budget) counted(limit Limit) int64 {
	if b.Unit == UnitUSD {
		return int64(limit)
	}
	return limit.Whole()
}

// part is the one that began last, and when: of a part that a clock change
// skips, the moment of the jump.
func (w *Window) part(t time.Time, loc *time.Location) (start time.Time, part WindowPart) {
	y, m, day := t.In(loc).Date()
	for back := range 2 {
		for _, p := range w.Parts {
			if at := wallHour(y, m, day-back, int(p.StartHour), loc); !at.After(t) && !at.Before(start) {
				start, part = at, p
			}
		}
	}
	return start, part
}

func (b *Budget) checkLimit(d *decoder, s spot, limit Limit) {
	if b.Unit != UnitUSD && limit%1e6 != 0 {
		d.fail(s, "%s is no whole number, and %s are counted", limit, b.Unit)
	}
	if b.Unit == UnitUSD && limit.Whole() > maxDollars {
		d.fail(s, "is more than %d dollars", maxDollars)
	}
}

func (b *Budget) checkParts(d *decoder, s, w spot) {
	parts := b.Window.Parts
	if parts == nil {
		return
	}
	if b.Limit != 0 {
		d.fail(s.at("limit"), "stands beside window.parts, of which each has its own; leave it out")
	}
	if b.Window.StartHour != 0 {
		d.fail(w.at("startHour"), "stands beside parts, of which each has its own; leave it out")
	}
	if len(parts) < 2 || len(parts) > 24 {
		d.fail(w.at("parts"), "has %d items; give 2 to 24", len(parts))
	}
	for i, p := range parts {
		at := w.at("parts", i)
		if d.require(at.at("name"), p.Name != "", "like \"day\" or \"night\""); p.Name != "" {
			d.name(at.at("name"), p.Name)
		}
		d.between(at.at("startHour"), p.StartHour, 0, 23)
		d.require(at.at("limit"), at.n.find("limit") != nil, "how much may be used in this part")
		b.checkLimit(d, at.at("limit"), p.Limit)
		for _, earlier := range parts[:i] {
			if earlier.Name == p.Name || earlier.StartHour == p.StartHour {
				d.fail(at, "has the name or the startHour of another part")
			}
		}
	}
}
