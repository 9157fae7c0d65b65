package cron

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// days is the part of an expression that picks dates: day of month, month and
// day of week.
type days struct {
	month, dom, dow uint64
	// joined says that day of month and day of week are joined by AND: either
	// began with "*" or "?". Else by OR. Source: Vixie cron, cron.c.
	joined bool

	lastOffsets uint64 // one bit per offset: "L" is 0, "L-3" is 3
	lastWeekday bool   // "LW"
	nearest     uint64 // one bit per day: "15W" is the weekday nearest to the 15th, in its month
	nth         []nthWeekday
}

// nthWeekday is "5#3", the third Friday, or "5L", the last: n is 0.
type nthWeekday struct {
	weekday time.Weekday
	n       int
}

func parseDays(dom, month, dow string) (days, error) {
	d := days{joined: star(dom) || star(dow)}
	var err error
	if d.month, err = monthNames.parse(month); err != nil {
		return days{}, err
	}
	if err := d.parseDom(strings.ToUpper(dom)); err != nil {
		return days{}, err
	}
	if err := d.parseDow(strings.ToUpper(dow)); err != nil {
		return days{}, err
	}
	return d, nil
}

func star(text string) bool { return text[0] == '*' || text[0] == '?' }

func (d *days) parseDom(text string) error {
	for item := range strings.SplitSeq(text, ",") {
		switch rest, tail := strings.CutPrefix(item, "L-"); {
		case item == "L":
			d.lastOffsets |= 1
		case item == "LW" || item == "WL":
			d.lastWeekday = true
		case tail:
			n, err := number(rest)
			if err != nil || n < 1 || n > 30 {
				return fmt.Errorf("%s: offset in %.40q is not between 1 and 30", monthDays.name, item)
			}
			d.lastOffsets |= 1 << n
		case strings.HasSuffix(item, "W"):
			n, err := monthDays.value(strings.TrimSuffix(item, "W"))
			if err != nil {
				return fmt.Errorf("%s: %w", monthDays.name, err)
			}
			d.nearest |= 1 << n
		default:
			bits, err := monthDays.parse(item)
			if err != nil {
				return err
			}
			d.dom |= bits
		}
	}
	return nil
}

func (d *days) parseDow(text string) error {
	for item := range strings.SplitSeq(text, ",") {
		name, count, hash := strings.Cut(item, "#")
		if last, ok := strings.CutSuffix(item, "L"); ok && last != "" {
			v, err := weekDays.value(last)
			if err != nil {
				return fmt.Errorf("%s: %w", weekDays.name, err)
			}
			d.addNth(nthWeekday{weekday: time.Weekday(v % 7)})
			continue
		}
		if hash {
			v, err := weekDays.value(name)
			if err != nil {
				return fmt.Errorf("%s: %w", weekDays.name, err)
			}
			n, err := number(count)
			if err != nil || n < 1 || n > 5 {
				return fmt.Errorf("%s: %.40q wants a number from 1 to 5 after #", weekDays.name, item)
			}
			d.addNth(nthWeekday{weekday: time.Weekday(v % 7), n: n})
			continue
		}
		bits, err := weekDays.parse(item)
		if err != nil {
			return err
		}
		if bits&(1<<7) != 0 {
			bits = bits&^(1<<7) | 1
		}
		d.dow |= bits
	}
	return nil
}

// addNth keeps the list short, however often an expression repeats an item.
func (d *days) addNth(n nthWeekday) {
	if !slices.Contains(d.nth, n) {
		d.nth = append(d.nth, n)
	}
}

func (d days) hasMonth(m time.Month) bool { return d.month&(1<<uint(m)) != 0 }

// match reports whether a date is picked. weekday is the date's own; the caller
// walks dates and knows it.
func (d days) match(year int, month time.Month, day int, weekday time.Weekday) bool {
	if !d.hasMonth(month) {
		return false
	}
	last := lastDay(year, month)
	dom := d.dom&(1<<uint(day)) != 0 || d.lastOffsets&(1<<uint(last-day)) != 0
	// The weekday nearest to a date is at most two days away from it.
	for n := max(1, day-2); n <= min(last, day+2); n++ {
		dom = dom || d.nearest&(1<<uint(n)) != 0 && day == nearestWeekday(year, month, n, last)
	}
	dom = dom || d.lastWeekday && day == nearestWeekday(year, month, last, last)

	dow := d.dow&(1<<uint(weekday)) != 0
	for _, n := range d.nth {
		if n.n == 0 {
			dow = dow || weekday == n.weekday && day+7 > last
		} else {
			dow = dow || weekday == n.weekday && (day-1)/7+1 == n.n
		}
	}
	if d.joined {
		return dom && dow
	}
	return dom || dow
}

// everMatches looks through 28 years, in which every date falls on every day of
// the week.
func (d days) everMatches() bool {
	for day := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC); day.Year() < 2028; day = day.AddDate(0, 0, 1) {
		if d.match(day.Year(), day.Month(), day.Day(), day.Weekday()) {
			return true
		}
	}
	return false
}

func lastDay(year int, month time.Month) int {
	return time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// nearestWeekday is the Monday to Friday nearest to a date, without leaving its
// month.
func nearestWeekday(year int, month time.Month, day, last int) int {
	switch time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Weekday() {
	case time.Saturday:
		if day == 1 {
			return 3
		}
		return day - 1
	case time.Sunday:
		if day == last {
			return day - 2
		}
		return day + 1
	}
	return day
}
