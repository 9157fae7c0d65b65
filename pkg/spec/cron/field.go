package cron

import (
	"fmt"
	"strconv"
	"strings"
)

// field describes the values one field of an expression may take.
type field struct {
	name   string
	lo, hi int
	values map[string]int // names of values, upper case
	days   bool           // takes "?" for any
}

var (
	minutes    = field{name: "minute", lo: 0, hi: 59}
	hours      = field{name: "hour", lo: 0, hi: 23}
	monthDays  = field{name: "day-of-month", lo: 1, hi: 31, days: true}
	monthNames = field{name: "month", lo: 1, hi: 12, values: map[string]int{
		"JAN": 1, "FEB": 2, "MAR": 3, "APR": 4, "MAY": 5, "JUN": 6,
		"JUL": 7, "AUG": 8, "SEP": 9, "OCT": 10, "NOV": 11, "DEC": 12,
	}}
	// weekDays runs to 7 so that "5-7" is Friday to Sunday; the caller folds 7
	// onto 0.
	weekDays = field{name: "day-of-week", lo: 0, hi: 7, days: true, values: map[string]int{
		"SUN": 0, "MON": 1, "TUE": 2, "WED": 3, "THU": 4, "FRI": 5, "SAT": 6,
	}}
)

// parse reads a list of values, ranges and steps into one bit per value.
func (f field) parse(text string) (uint64, error) {
	var bits uint64
	for item := range strings.SplitSeq(text, ",") {
		first, last, step, err := f.item(item)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", f.name, err)
		}
		for v := first; v <= last; v += step {
			bits |= 1 << v
		}
	}
	return bits, nil
}

// item reads "*", "5", "1-5", "*/15", "1-30/2" or "10/5" (from 10 to the end).
func (f field) item(text string) (first, last, step int, err error) {
	span, stepText, stepped := strings.Cut(text, "/")
	step = 1
	if stepped {
		step, err = number(stepText)
		if err != nil || step < 1 || step > f.end()-f.lo+1 {
			return 0, 0, 0, fmt.Errorf("step in %.40q is not between 1 and %d", text, f.end()-f.lo+1)
		}
	}
	if span == "*" || span == "?" && f.days {
		return f.lo, f.end(), step, nil
	}
	from, to, isRange := strings.Cut(span, "-")
	if first, err = f.value(from); err != nil {
		return 0, 0, 0, err
	}
	last = first
	switch {
	case isRange:
		if last, err = f.value(to); err != nil {
			return 0, 0, 0, err
		}
		if first > last {
			return 0, 0, 0, fmt.Errorf("range %.40q runs backwards; write two ranges joined by a comma", text)
		}
	case stepped:
		last = max(first, f.end())
	}
	return first, last, step, nil
}

// end is the last value of "*": Saturday for days of the week, since 7 repeats 0.
func (f field) end() int {
	if f.name == weekDays.name {
		return 6
	}
	return f.hi
}

func (f field) value(text string) (int, error) {
	if v, ok := f.values[strings.ToUpper(text)]; ok {
		return v, nil
	}
	v, err := number(text)
	if err != nil {
		return 0, err
	}
	if v < f.lo || v > f.hi {
		return 0, fmt.Errorf("%.40q is not between %d and %d", text, f.lo, f.hi)
	}
	return v, nil
}

// number reads up to four plain digits: no sign, no space.
func number(text string) (int, error) {
	if text == "" || len(text) > 4 || strings.Trim(text, "0123456789") != "" {
		return 0, fmt.Errorf("%.40q is not a value", text)
	}
	return strconv.Atoi(text)
}
