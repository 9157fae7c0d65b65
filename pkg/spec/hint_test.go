package spec

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What is valid and may not be what was meant is said, with its place.
func TestWarnings(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for lines, want := range map[string][]string{
		`cron: "0 2 * * *"`: nil,
		`cron: "0 0 13 * 5"`: {"x.yaml:6:9: spec.cron: day-of-month and day-of-week are both given, and a day that matches either of them fires; " +
			"the next are Fri 4 Dec 2026 00:00, Fri 11 Dec 2026 00:00, Sun 13 Dec 2026 00:00, Fri 18 Dec 2026 00:00, Fri 25 Dec 2026 00:00"},
		`cron: "0 0 15W * MON#1"`: {"x.yaml:6:9: spec.cron: day-of-month and day-of-week are both given, and a day that matches either of them fires; " +
			"the next are Mon 7 Dec 2026 00:00, Tue 15 Dec 2026 00:00, Mon 4 Jan 2027 00:00, Fri 15 Jan 2027 00:00, Mon 1 Feb 2027 00:00"},
		`cron: "0 0 */2 * 5"`:                                 nil, // joined by AND
		`cron: "0 0 1-31 * 5"`:                                nil, // every day
		`cron: "0 0 13 * 0-6"`:                                nil,
		"cron: \"30 2 * * *\"\ntimeZone: America/New_York":    {"x.yaml:6:9: spec.cron: on 2027-03-14 in America/New_York there is no 02:30; it fires at 03:30"},
		"cron: \"30 1 * * *\"\ntimeZone: America/New_York":    {"x.yaml:6:9: spec.cron: on 2027-11-07 in America/New_York 01:30 comes twice; it fires once, the first time"},
		"cron: \"0 0 * * *\"\ntimeZone: America/Santiago":     {"x.yaml:6:9: spec.cron: on 2027-09-05 in America/Santiago there is no 00:00; it fires at 01:00"},
		"cron: \"15 2 * * *\"\ntimeZone: Australia/Lord_Howe": {"x.yaml:6:9: spec.cron: on 2027-10-03 in Australia/Lord_Howe there is no 02:15; it fires at 02:45"},
		"cron: \"45 1 * * *\"\ntimeZone: Australia/Lord_Howe": {"x.yaml:6:9: spec.cron: on 2027-04-04 in Australia/Lord_Howe 01:45 comes twice; it fires once, the first time"},
		"cron: \"*/15 * * * *\"\ntimeZone: America/New_York":  nil, // follows real time
		"cron: \"30 2 * * 1\"\ntimeZone: America/New_York":    nil, // clocks change on Sundays
		"cron: \"0 3 * * *\"\ntimeZone: America/New_York":     nil, // the first minute after the gap
		"cron: \"0 1,2 * * *\"\ntimeZone: America/New_York": {
			"x.yaml:6:9: spec.cron: on 2027-03-14 in America/New_York there is no 02:00; it fires at 03:00",
			"x.yaml:6:9: spec.cron: on 2027-11-07 in America/New_York 01:00 comes twice; it fires once, the first time"},
		"every: 1h\ntimeZone: America/New_York": nil,
	} {
		docs, err := Parse("x.yaml", schedule(lines))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, w := range docs[0].Warnings(now) {
			got = append(got, w.Error())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", lines, diff)
		}
	}
}
