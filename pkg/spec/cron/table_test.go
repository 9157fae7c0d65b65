package cron

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// show prints fires as "local time with offset", "!" and the nominal time when
// shifted, "~2" on the second pass.
func show(fires []Fire) string {
	var out []string
	for _, f := range fires {
		s := f.At.Format("2006-01-02T15:04-07:00")
		if f.Shifted {
			s += "!" + f.Nominal[11:]
		}
		if f.Fold == 1 {
			s += "~2"
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func parse(t *testing.T, expr, zone string) *Schedule {
	t.Helper()
	s, err := Parse(expr, zone)
	if err != nil {
		t.Fatalf("parse %q in %q: %v", expr, zone, err)
	}
	return s
}

func local(t *testing.T, s *Schedule, at string) time.Time {
	t.Helper()
	when, err := time.ParseInLocation(nominalFormat, at, s.Location())
	if err != nil {
		t.Fatal(err)
	}
	return when
}

func TestAfter(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		expr, zone, after string
		n                 int
		want              string
	}{
		"gap, New York, at its start":         {"0 2 * * *", "America/New_York", "2026-03-07T12:00", 2, "2026-03-08T03:00-04:00!02:00 2026-03-09T02:00-04:00"},
		"gap, New York, inside":               {"30 2 * * *", "America/New_York", "2026-03-07T12:00", 2, "2026-03-08T03:30-04:00!02:30 2026-03-09T02:30-04:00"},
		"gap, Los Angeles":                    {"0 2 * * *", "America/Los_Angeles", "2025-03-08T12:00", 2, "2025-03-09T03:00-07:00!02:00 2025-03-10T02:00-07:00"},
		"gap, London":                         {"30 1 * * *", "Europe/London", "2026-03-28T12:00", 2, "2026-03-29T02:30+01:00!01:30 2026-03-30T01:30+01:00"},
		"gap of half an hour":                 {"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00", 2, "2026-10-04T02:45+11:00!02:15 2026-10-05T02:15+11:00"},
		"gap at midnight":                     {"0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00", 2, "2018-11-04T01:00-02:00!00:00 2018-11-05T00:00-02:00"},
		"gap at midnight on the one day":      {"0 0 4 11 *", "America/Sao_Paulo", "2018-11-01T12:00", 1, "2018-11-04T01:00-02:00!00:00"},
		"gap at midnight, Santiago":           {"0 0 * * *", "America/Santiago", "2027-09-04T12:00", 2, "2027-09-05T01:00-03:00!00:00 2027-09-06T00:00-03:00"},
		"gap meets a normal fire":             {"30 2,3 * * *", "America/New_York", "2026-03-08T00:00", 2, "2026-03-08T03:30-04:00!02:30 2026-03-08T03:30-04:00"},
		"overlap, New York, first pass":       {"30 1 * * *", "America/New_York", "2026-10-31T12:00", 2, "2026-11-01T01:30-04:00 2026-11-02T01:30-05:00"},
		"overlap, London, first pass":         {"30 1 * * *", "Europe/London", "2026-10-24T12:00", 2, "2026-10-25T01:30+01:00 2026-10-26T01:30+00:00"},
		"overlap, Berlin":                     {"0 2 * * *", "Europe/Berlin", "2023-10-28T12:00", 2, "2023-10-29T02:00+02:00 2023-10-30T02:00+01:00"},
		"overlap of half an hour":             {"45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00", 2, "2026-04-05T01:45+11:00 2026-04-06T01:45+10:30"},
		"overlap before midnight":             {"30 23 * * *", "America/Sao_Paulo", "2018-02-17T12:00", 2, "2018-02-17T23:30-02:00 2018-02-18T23:30-03:00"},
		"overlap, two minutes listed":         {"0,30 1 * * *", "America/New_York", "2026-10-31T12:00", 3, "2026-11-01T01:00-04:00 2026-11-01T01:30-04:00 2026-11-02T01:00-05:00"},
		"asked inside the second pass":        {"30 1 * * *", "America/New_York", "2026-11-01T01:59", 1, "2026-11-02T01:30-05:00"},
		"2027, New York, gap":                 {"30 2 * * *", "America/New_York", "2027-03-13T12:00", 2, "2027-03-14T03:30-04:00!02:30 2027-03-15T02:30-04:00"},
		"2027, New York, overlap":             {"30 1 * * *", "America/New_York", "2027-11-06T12:00", 2, "2027-11-07T01:30-04:00 2027-11-08T01:30-05:00"},
		"interval in a gap":                   {"*/15 * * * *", "America/New_York", "2026-03-08T01:29", 3, "2026-03-08T01:30-05:00 2026-03-08T01:45-05:00 2026-03-08T03:00-04:00"},
		"interval in an overlap":              {"*/15 * * * *", "America/New_York", "2026-11-01T01:29", 6, "2026-11-01T01:30-04:00 2026-11-01T01:45-04:00 2026-11-01T01:00-05:00~2 2026-11-01T01:15-05:00~2 2026-11-01T01:30-05:00~2 2026-11-01T01:45-05:00~2"},
		"hourly in an overlap":                {"0 * * * *", "America/New_York", "2026-11-01T00:30", 3, "2026-11-01T01:00-04:00 2026-11-01T01:00-05:00~2 2026-11-01T02:00-05:00"},
		"every two hours over a midnight gap": {"0 */2 * * *", "Africa/Cairo", "2025-04-24T20:30", 3, "2025-04-24T22:00+02:00 2025-04-25T02:00+03:00 2025-04-25T04:00+03:00"},
		"quarter of an hour east":             {"0 9 * * *", "Asia/Kathmandu", "2026-06-01T00:00", 1, "2026-06-01T09:00+05:45"},
		"leap day":                            {"0 0 29 2 *", "UTC", "2026-01-01T00:00", 2, "2028-02-29T00:00+00:00 2032-02-29T00:00+00:00"},
		"leap day over 2100":                  {"0 0 29 2 *", "UTC", "2096-03-01T00:00", 1, "2104-02-29T00:00+00:00"},
		"after 2100":                          {"0 0 1 3 *", "UTC", "2100-01-01T00:00", 1, "2100-03-01T00:00+00:00"},
		"31st skips short months":             {"0 0 31 * *", "UTC", "2026-01-31T00:00", 3, "2026-03-31T00:00+00:00 2026-05-31T00:00+00:00 2026-07-31T00:00+00:00"},
		"day of month or day of week":         {"0 0 13 * 5", "UTC", "2026-10-31T00:00", 4, "2026-11-06T00:00+00:00 2026-11-13T00:00+00:00 2026-11-20T00:00+00:00 2026-11-27T00:00+00:00"},
		"last day":                            {"0 0 L * *", "UTC", "2026-01-31T00:00", 2, "2026-02-28T00:00+00:00 2026-03-31T00:00+00:00"},
		"third to last day":                   {"0 0 L-2 * *", "UTC", "2026-01-31T00:00", 2, "2026-02-26T00:00+00:00 2026-03-29T00:00+00:00"},
		"last weekday":                        {"0 0 LW * *", "UTC", "2026-01-31T00:00", 2, "2026-02-27T00:00+00:00 2026-03-31T00:00+00:00"},
		"weekday nearest the 15th":            {"0 0 15W * *", "UTC", "2026-01-31T00:00", 2, "2026-02-16T00:00+00:00 2026-03-16T00:00+00:00"},
		"weekday nearest the 1st, month kept": {"0 0 1W * *", "UTC", "2026-07-31T00:00", 1, "2026-08-03T00:00+00:00"},
		"third Friday":                        {"0 0 * * 5#3", "UTC", "2026-01-31T00:00", 2, "2026-02-20T00:00+00:00 2026-03-20T00:00+00:00"},
		"last Friday":                         {"0 0 * * FRIL", "UTC", "2026-01-31T00:00", 2, "2026-02-27T00:00+00:00 2026-03-27T00:00+00:00"},
		"Sunday is 7":                         {"0 0 * * 7", "UTC", "2026-01-31T00:00", 1, "2026-02-01T00:00+00:00"},
		"Friday to Sunday":                    {"0 0 * * 5-7", "UTC", "2026-01-31T00:00", 3, "2026-02-01T00:00+00:00 2026-02-06T00:00+00:00 2026-02-07T00:00+00:00"},
		"names in lower case":                 {"0 0 * feb mon-wed", "UTC", "2026-01-31T00:00", 2, "2026-02-02T00:00+00:00 2026-02-03T00:00+00:00"},
		"question mark":                       {"0 0 ? * MON", "UTC", "2026-01-31T00:00", 1, "2026-02-02T00:00+00:00"},
		"zone in the expression":              {"CRON_TZ=Asia/Tokyo 0 9 * * *", "UTC", "2026-01-01T09:30", 1, "2026-01-02T09:00+09:00"},
		"a lost civil day on its yearly date": {"0 12 30 12 *", "Pacific/Apia", "2011-12-01T00:00", 1, "2012-12-30T12:00+14:00"},
		"a lost civil day":                    {"0 12 * * *", "Pacific/Apia", "2011-12-28T13:00", 3, "2011-12-29T12:00-10:00 2011-12-31T12:00+14:00 2012-01-01T12:00+14:00"},
		"every six o'clock":                   {"0 6 * * *", "UTC", "2026-01-01T00:00", 1, "2026-01-01T06:00+00:00"},
		"UTC whatever other zones do":         {"30 1 * * *", "UTC", "2022-10-29T12:00", 1, "2022-10-30T01:30+00:00"},
		"macro":                               {"@weekly", "UTC", "2026-01-01T00:00", 1, "2026-01-04T00:00+00:00"},
		"from a value to the end":             {"50/5 * * * *", "UTC", "2026-01-01T00:00", 3, "2026-01-01T00:50+00:00 2026-01-01T00:55+00:00 2026-01-01T01:50+00:00"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := parse(t, tc.expr, tc.zone)
			got := show(s.After(local(t, s, tc.after), tc.n))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s in %s (-want +got):\n%s", tc.expr, tc.zone, diff)
			}
		})
	}
}

func TestAfter_EveryMinuteOfTheDoubleHour(t *testing.T) {
	t.Parallel()
	s := parse(t, "* * * * *", "Europe/London")
	fires := s.After(local(t, s, "2025-10-26T00:59"), 121)
	passes := map[int]int{}
	for _, f := range fires {
		if strings.HasPrefix(f.Nominal, "2025-10-26T01:") {
			passes[f.Fold]++
		}
	}
	if diff := cmp.Diff(map[int]int{0: 60, 1: 60}, passes); diff != "" {
		t.Errorf("fires between 01:00 and 01:59 by pass (-want +got):\n%s", diff)
	}
	if last := fires[120].Nominal; last != "2025-10-26T02:00" {
		t.Errorf("the 121st fire is %s, want 02:00", last)
	}
}

func TestAfter_IsStrict(t *testing.T) {
	t.Parallel()
	s := parse(t, "0 2 * * *", "America/New_York")
	first := s.After(local(t, s, "2026-06-01T00:00"), 1)[0]
	if next := s.After(first.At, 1)[0]; !next.At.After(first.At) {
		t.Errorf("the fire after %s is %s", first.At, next.At)
	}
	if again := s.After(first.At.Add(-time.Nanosecond), 1)[0]; !again.At.Equal(first.At) {
		t.Errorf("a nanosecond before %s the next fire is %s", first.At, again.At)
	}
	if got := s.After(first.At, 0); got != nil {
		t.Errorf("no fires were asked for, got %v", got)
	}
}

func TestParse_Refused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ expr, zone, want string }{
		"zone prefix alone":      {"TZ=", "", `time zone: "TZ="`},
		"zone prefix of nothing": {"TZ=0", "", `time zone: "TZ="`},
		"unknown zone":           {"0 0 * * *", "Mars/Phobos", `time zone: "Mars/Phobos"`},
		"the machine's zone":     {"0 0 * * *", "Local", `time zone: "Local"`},
		"zone that climbs":       {"0 0 * * *", "../../etc/passwd", "time zone"},
		"empty":                  {"", "", "has 0 fields"},
		"six fields":             {"* * * * * *", "", "has 6 fields"},
		"an interval":            {"@every 0s", "", "unknown macro"},
		"ten thousand stars":     {strings.Repeat("*", 10_000), "", "longer than"},
		"step zero":              {"*/0 * * * *", "", "minute: step"},
		"step beyond the range":  {"*/61 * * * *", "", "minute: step"},
		"step beyond the week":   {"0 0 * * */8", "", "day-of-week: step"},
		"minute 60":              {"60 * * * *", "", `minute: "60"`},
		"hour 24":                {"0 24 * * *", "", `hour: "24"`},
		"negative minute":        {"-1 * * * *", "", "minute: "},
		"day 0":                  {"0 0 0 * *", "", `day-of-month: "0"`},
		"month 13":               {"0 0 1 13 *", "", `month: "13"`},
		"backward range":         {"0 22-2 * * *", "", "hour: range"},
		"backward days":          {"0 0 * * FRI-MON", "", "day-of-week: range"},
		"sixth Friday":           {"0 0 * * 5#6", "", "day-of-week: "},
		"day 8 of the week":      {"0 0 * * 8", "", `day-of-week: "8"`},
		"32W":                    {"0 0 32W * *", "", "day-of-month: "},
		"question mark minute":   {"? 0 * * *", "", "minute: "},
		"empty list item":        {"0, 0 * * *", "", "minute: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse(tc.expr, tc.zone)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Parse(%.40q, %q): error %v, want it to contain %q", tc.expr, tc.zone, err, tc.want)
			}
		})
	}
}

func TestParse_NeverFires(t *testing.T) {
	t.Parallel()
	for _, expr := range []string{"0 0 30 2 *", "0 0 31 4 *", "0 0 31 2,4,6,9,11 *"} {
		if _, err := Parse(expr, "UTC"); !errors.Is(err, ErrNeverFires) {
			t.Errorf("Parse(%q): error %v, want ErrNeverFires", expr, err)
		}
	}
	if _, err := Parse("0 0 29 2 *", "UTC"); err != nil {
		t.Errorf("29 February: %v", err)
	}
}

// Every civil day of 2026 in zones with every kind of change: a fixed daily time
// fires exactly once.
func TestAfter_OncePerDay(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{
		"America/New_York", "Europe/London", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Santiago",
		"Africa/Casablanca", "Asia/Beirut", "Africa/Cairo", "America/Havana", "America/Nuuk",
		"Antarctica/Troll", "Europe/Dublin", "Asia/Gaza", "Pacific/Chatham",
	} {
		t.Run(strings.ReplaceAll(zone, "/", "_"), func(t *testing.T) {
			t.Parallel()
			for slot := range 24 * 4 {
				expr := fmt.Sprintf("%d %d * * *", slot%4*15, slot/4)
				s := parse(t, expr, zone)
				days := map[string]int{}
				for _, f := range s.After(local(t, s, "2025-12-31T23:59"), 366) {
					if strings.HasPrefix(f.Nominal, "2026-") {
						days[f.Nominal[:10]]++
					}
				}
				for day, n := range days {
					if n != 1 {
						t.Errorf("%s: %d fires on %s", expr, n, day)
					}
				}
				if len(days) != 365 {
					t.Errorf("%s: fires on %d days of 365", expr, len(days))
				}
			}
		})
	}
}
