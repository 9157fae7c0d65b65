package spec

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Calendar says when people are at work: the time that counts for a rule.
type Calendar struct {
	TimeZone string      `json:"timeZone"` // IANA, like Europe/Berlin
	Open     []OpenHours `json:"open"`     // when people are at work
	// Holidays lists days, as they are in TimeZone, on which nothing opens.
	Holidays []Days `json:"holidays,omitempty"`
}

// OpenHours are hours of some days, by the wall clock: what is not after From ends on
// the next day, so "22:00" to "06:00" is a night and "00:00" to "00:00" a whole day.
type OpenHours struct {
	Days []string `json:"days"` // mon to sun; default mon to fri
	From string   `json:"from"` // wall clock, like 09:00
	To   string   `json:"to"`   // not after From: on the next day
}

// weekdays are the names of days, from Sunday as time.Weekday counts.
var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// Bounds of a Calendar.
const (
	maxOpen        = 20
	maxHolidays    = 400
	maxHolidayDays = 1000 // of all together, so that it opens again
)

func (c *Calendar) fill() {
	if c == nil {
		return
	}
	for i := range c.Open {
		if c.Open[i].Days == nil {
			c.Open[i].Days = slices.Clone(weekdays[1:6])
		}
	}
}

func (c *Calendar) check(d *decoder, s spot) {
	if c == nil {
		return
	}
	if d.require(s.at("timeZone"), c.TimeZone != "", "a zone like \"Europe/Berlin\" or \"UTC\""); c.TimeZone != "" {
		d.zone(s.at("timeZone"), c.TimeZone)
	}
	d.require(s.at("open"), len(c.Open) > 0, "when people are at work, like [{days: [mon, tue], from: \"09:00\", to: \"17:00\"}]; what is always closed would never expire")
	if len(c.Open) > maxOpen {
		d.fail(s.at("open"), "has %d items; at most %d are allowed", len(c.Open), maxOpen)
		return
	}
	for i, o := range c.Open {
		at := s.at("open", i)
		d.require(at.at("days"), len(o.Days) > 0, "at least one of mon to sun; without it mon to fri")
		d.each(at.at("days"), o.Days, 7, func(at spot, day string) { d.oneOf(at, day, weekdays...) })
		for _, c := range []struct{ name, clock string }{{"from", o.From}, {"to", o.To}} {
			if d.require(at.at(c.name), c.clock != "", "a time of the day, like \"09:00\""); c.clock != "" && !wallClock.MatchString(c.clock) {
				d.fail(at.at(c.name), "%q is not a time of the day; write it in quotes, from \"00:00\" to \"23:59\"", shorten(c.clock))
			}
		}
	}
	if len(c.Holidays) > maxHolidays {
		d.fail(s.at("holidays"), "has %d items; at most %d are allowed", len(c.Holidays), maxHolidays)
		return
	}
	if n := holidayDays(c.Holidays); n > maxHolidayDays {
		d.fail(s.at("holidays"), "are %d days; at most %d are allowed, or it would stay closed", n, maxHolidayDays)
	}
}

func holidayDays(all []Days) int {
	n := 0
	for _, x := range all {
		first, err := time.Parse(time.DateOnly, x.First)
		last, err2 := time.Parse(time.DateOnly, x.Last)
		if err == nil && err2 == nil {
			n += int(last.Sub(first)/(24*time.Hour)) + 1
		}
	}
	return n
}

func (c *Calendar) event() *events.Calendar {
	out := &events.Calendar{TimeZone: c.TimeZone}
	for _, o := range c.Open {
		out.Open = append(out.Open, events.OpenHours{Days: slices.Clone(o.Days), From: o.From, To: o.To})
	}
	for _, x := range c.Holidays {
		if x.First == x.Last {
			out.Holidays = append(out.Holidays, x.First)
		} else {
			out.Holidays = append(out.Holidays, x.String())
		}
	}
	return out
}

// Clock counts the open time of a calendar. It is safe for concurrent use.
type Clock struct {
	zone     *time.Location
	open     [7][]shift // by time.Weekday
	holidays []Days
}

// shift is from when to when something is open, in minutes of the day it begins on.
type shift struct{ from, to int }

// NewClock makes the clock of a calendar that came from outside.
func NewClock(c *events.Calendar) (*Clock, error) {
	x := &Clock{}
	var err error
	if x.zone, err = loadZone(c.TimeZone); err != nil || c.TimeZone == "" || c.TimeZone == "Local" {
		return nil, fmt.Errorf("calendar: there is no zone %.100q", c.TimeZone)
	}
	if len(c.Open) == 0 || len(c.Open) > maxOpen || len(c.Holidays) > maxHolidays {
		return nil, fmt.Errorf("calendar: it has %d opening hours and %d holidays, want 1 to %d and at most %d", len(c.Open), len(c.Holidays), maxOpen, maxHolidays)
	}
	for _, o := range c.Open {
		if !wallClock.MatchString(o.From) || !wallClock.MatchString(o.To) || len(o.Days) == 0 || len(o.Days) > 7 {
			return nil, fmt.Errorf("calendar: %.200q are no opening hours", fmt.Sprint(o))
		}
		hours := shift{minutes(o.From), minutes(o.To)}
		if hours.to <= hours.from {
			hours.to += 24 * 60
		}
		for _, day := range o.Days {
			i := slices.Index(weekdays, day)
			if i < 0 {
				return nil, fmt.Errorf("calendar: %.20q is no day of the week", day)
			}
			x.open[i] = append(x.open[i], hours)
		}
	}
	for i := range x.open {
		slices.SortFunc(x.open[i], func(a, b shift) int { return a.from - b.from })
	}
	for _, h := range c.Holidays {
		first, last, ranged := strings.Cut(h, "..")
		if !ranged {
			last = first
		}
		for _, day := range []string{first, last} {
			if _, err := time.Parse(time.DateOnly, day); err != nil {
				return nil, fmt.Errorf("calendar: %.50q is no day", h)
			}
		}
		if last < first {
			return nil, fmt.Errorf("calendar: %.50q runs backwards", h)
		}
		x.holidays = append(x.holidays, Days{first, last})
	}
	if n := holidayDays(x.holidays); n > maxHolidayDays {
		return nil, fmt.Errorf("calendar: %d days are holidays, at most %d are allowed", n, maxHolidayDays)
	}
	return x, nil
}

func minutes(clock string) int {
	t, _ := time.Parse("15:04", clock) // it was matched
	return t.Hour()*60 + t.Minute()
}

// countedDays is how far ahead open time is looked for.
const countedDays = 10 * 366

// Add is the moment at which d of open time has passed since t: of a time at which it
// is closed, counted from when it opens. A time that a clock change skips opens and
// closes at the jump, one that comes twice the first time; an hour that comes twice
// while it is open counts twice. What would take more than ten years is then. It is pure.
func (x *Clock) Add(t time.Time, d time.Duration) time.Time {
	y, m, day := t.In(x.zone).Date()
	at := t
	for ahead := -1; ahead < countedDays; ahead++ { // a night that began yesterday may be open still
		date := time.Date(y, m, day+ahead, 12, 0, 0, 0, time.UTC)
		if x.holiday(date.Format(time.DateOnly)) {
			continue
		}
		for _, hours := range x.open[date.Weekday()] {
			from, to := x.wall(date, hours.from), x.wall(date, hours.to)
			if from.Before(at) {
				from = at
			}
			left := to.Sub(from)
			if left <= 0 {
				continue
			}
			if d <= left {
				return from.Add(d).UTC()
			}
			d, at = d-left, to
		}
	}
	return t.AddDate(10, 0, 0).UTC()
}

func (x *Clock) holiday(day string) bool {
	return slices.ContainsFunc(x.holidays, func(h Days) bool { return h.Has(day) })
}

// wall is the first moment at which the wall clock shows so many minutes of the day.
func (x *Clock) wall(date time.Time, minute int) time.Time {
	y, m, day := date.AddDate(0, 0, minute/(24*60)).Date()
	minute %= 24 * 60
	t := wallTime(y, m, day, minute/60, minute%60, x.zone)
	for _, earlier := range []time.Duration{time.Hour, 30 * time.Minute} { // clocks are put back by one of these
		if first := t.Add(-earlier); first.Hour() == t.Hour() && first.Minute() == t.Minute() {
			return first
		}
	}
	return t
}
