package spec

import (
	"regexp"
	"time"
)

// Digest tells a channel once a day what waits for people.
type Digest struct {
	At       string `json:"at"`       // by the wall clock of TimeZone: 08:00
	TimeZone string `json:"timeZone"` // default UTC
}

// digestLate is how late a digest may be: what was down all morning tells nobody in
// the afternoon.
const digestLate = time.Hour

var wallClock = regexp.MustCompile(`^([01][0-9]|2[0-3]):[0-5][0-9]$`)

func (x *Digest) fill() {
	if x != nil && x.TimeZone == "" {
		x.TimeZone = "UTC"
	}
}

func (x *Digest) check(d *decoder, s spot) {
	if x == nil {
		return
	}
	if d.require(s.at("at"), x.At != "", "a time of the day, like \"08:00\""); x.At != "" && !wallClock.MatchString(x.At) {
		d.fail(s.at("at"), "%q is not a time of the day; write it in quotes, from \"00:00\" to \"23:59\"", shorten(x.At))
	}
	d.zone(s.at("timeZone"), x.TimeZone)
}

// Due returns the day (2026-11-29, in the digest's zone) whose digest is due at now, and
// reports whether one is: from its time on for an hour. A time that a clock change
// skips is an hour later, one that comes twice counts the first time. It is pure.
func (x *Digest) Due(now time.Time) (day string, due bool) {
	zone, err := loadZone(x.TimeZone)
	at, err2 := time.Parse("15:04", x.At)
	if err != nil || err2 != nil {
		return "", false // it was checked
	}
	y, m, d := now.In(zone).Date()
	for back := range 2 { // late in the evening the hour ends on the next day
		t := x.on(y, m, d-back, at, zone)
		if since := now.Sub(t); since >= 0 && since < digestLate {
			return time.Date(y, m, d-back, 12, 0, 0, 0, zone).Format(time.DateOnly), true
		}
	}
	return "", false
}

// on is the digest's time of a day.
func (x *Digest) on(y int, m time.Month, d int, at time.Time, zone *time.Location) time.Time {
	t := time.Date(y, m, d, at.Hour(), at.Minute(), 0, 0, zone)
	for _, earlier := range []time.Duration{30 * time.Minute, time.Hour} { // clocks are put back by one of these
		if first := t.Add(-earlier); first.In(zone).Format("15:04") == x.At {
			t = first
		}
	}
	return t
}

// Next is the digest's time that comes first after now; zero when it has none. It is
// pure.
func (x *Digest) Next(now time.Time) time.Time {
	zone, err := loadZone(x.TimeZone)
	at, err2 := time.Parse("15:04", x.At)
	if err != nil || err2 != nil {
		return time.Time{} // it was checked
	}
	y, m, d := now.In(zone).Date()
	for ahead := range 3 {
		if t := x.on(y, m, d+ahead, at, zone); t.After(now) {
			return t
		}
	}
	return time.Time{}
}
