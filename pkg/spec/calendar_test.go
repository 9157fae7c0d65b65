package spec

import (
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

func TestClock_CountsOpenTime(t *testing.T) {
	t.Parallel()
	week := []string{"mon", "tue", "wed", "thu", "fri"}
	office := events.Calendar{TimeZone: "Europe/Berlin", Open: []events.OpenHours{{Days: week, From: "09:00", To: "17:00"}}, Holidays: []string{"2026-12-24..2026-12-26", "2027-01-01"}}
	night := events.Calendar{TimeZone: "Europe/Berlin", Open: []events.OpenHours{{Days: []string{"fri", "sat"}, From: "22:00", To: "06:00"}}, Holidays: []string{"2026-12-26"}}
	lunch := events.Calendar{TimeZone: "UTC", Open: []events.OpenHours{{Days: week, From: "13:00", To: "17:00"}, {Days: week, From: "08:00", To: "12:00"}, {Days: week, From: "09:00", To: "10:00"}}}
	always := events.Calendar{TimeZone: "Europe/Berlin", Open: []events.OpenHours{{Days: weekdays, From: "00:00", To: "00:00"}}}
	early := events.Calendar{TimeZone: "Europe/Berlin", Open: []events.OpenHours{{Days: []string{"sun"}, From: "02:30", To: "05:00"}}}
	west := events.Calendar{TimeZone: "America/New_York", Open: []events.OpenHours{{Days: []string{"sun"}, From: "02:30", To: "05:00"}}}
	rare := events.Calendar{TimeZone: "UTC", Open: []events.OpenHours{{Days: []string{"mon"}, From: "09:00", To: "09:01"}}}
	for name, tc := range map[string]struct {
		c    events.Calendar
		from string
		d    time.Duration
		want string
	}{
		"within a day":                          {office, "2026-11-30T10:00:00+01:00", 2 * time.Hour, "2026-11-30T12:00:00+01:00"},
		"to the minute of closing":              {office, "2026-11-30T09:00:00+01:00", 8 * time.Hour, "2026-11-30T17:00:00+01:00"},
		"over night":                            {office, "2026-11-30T16:30:00+01:00", time.Hour, "2026-12-01T09:30:00+01:00"},
		"asked before it opens":                 {office, "2026-11-30T03:00:00+01:00", time.Hour, "2026-11-30T10:00:00+01:00"},
		"over a weekend":                        {office, "2026-11-27T16:59:00+01:00", 2 * time.Minute, "2026-11-30T09:01:00+01:00"},
		"asked on a Sunday":                     {office, "2026-11-29T12:00:00Z", 8*time.Hour + time.Second, "2026-12-01T09:00:01+01:00"},
		"over Christmas":                        {office, "2026-12-23T16:00:00+01:00", 2 * time.Hour, "2026-12-28T10:00:00+01:00"},
		"a year has more than its days":         {office, "2026-12-31T16:00:00+01:00", 2 * time.Hour, "2027-01-04T10:00:00+01:00"},
		"the zone's day, not that of UTC":       {office, "2026-11-30T23:30:00Z", time.Hour, "2026-12-01T10:00:00+01:00"},
		"the weekend of the spring change":      {office, "2026-03-27T16:00:00+01:00", 2 * time.Hour, "2026-03-30T10:00:00+02:00"},
		"the weekend of the autumn change":      {office, "2026-10-23T16:00:00+02:00", 2 * time.Hour, "2026-10-26T10:00:00+01:00"},
		"spring takes an hour of the day":       {always, "2026-03-29T00:00:00+01:00", 23 * time.Hour, "2026-03-30T00:00:00+02:00"},
		"autumn gives one":                      {always, "2026-10-25T00:00:00+02:00", 25 * time.Hour, "2026-10-26T00:00:00+01:00"},
		"what is always open counts all":        {always, "2026-11-30T10:00:00+01:00", 72 * time.Hour, "2026-12-03T10:00:00+01:00"},
		"opening that is skipped is the jump":   {early, "2026-03-29T00:00:00+01:00", time.Hour, "2026-03-29T04:00:00+02:00"},
		"and so it is west of Greenwich":        {west, "2026-03-08T00:00:00-05:00", time.Hour, "2026-03-08T04:00:00-04:00"},
		"opening that comes twice is the first": {early, "2026-10-25T00:00:00+02:00", time.Hour, "2026-10-25T02:30:00+01:00"},
		"a night":                               {night, "2026-11-27T23:00:00+01:00", 3 * time.Hour, "2026-11-28T02:00:00+01:00"},
		"a night, asked behind midnight":        {night, "2026-11-28T01:00:00+01:00", 6 * time.Hour, "2026-11-28T23:00:00+01:00"},
		"a night into a Monday":                 {night, "2026-11-29T05:00:00+01:00", 2 * time.Hour, "2026-12-04T23:00:00+01:00"},
		"the night of the spring change":        {night, "2026-03-28T22:00:00+01:00", 7 * time.Hour, "2026-03-29T06:00:00+02:00"},
		"the night of the autumn change":        {night, "2026-10-24T22:00:00+02:00", 9 * time.Hour, "2026-10-25T06:00:00+01:00"},
		"a night into a holiday stays":          {night, "2026-12-25T22:00:00+01:00", 8*time.Hour + 1, "2027-01-01T22:00:00.000000001+01:00"},
		"lunch, and hours that overlap":         {lunch, "2026-11-30T11:00:00Z", 2 * time.Hour, "2026-11-30T14:00:00Z"},
		"hours that overlap count once":         {lunch, "2026-11-30T07:00:00Z", 5 * time.Hour, "2026-11-30T14:00:00Z"},
		"what takes for ever is ten years":      {rare, "2026-11-30T10:00:00Z", 2160 * time.Hour, "2036-11-30T10:00:00Z"},
	} {
		clock, err := NewClock(&tc.c)
		from, err2 := time.Parse(time.RFC3339Nano, tc.from)
		want, err3 := time.Parse(time.RFC3339Nano, tc.want)
		if err != nil || err2 != nil || err3 != nil {
			t.Fatal(err, err2, err3)
		}
		if got := clock.Add(from, tc.d); !got.Equal(want) {
			t.Errorf("%s: %s, want %s", name, got.In(clock.zone).Format(time.RFC3339Nano), tc.want)
		}
	}
}

func TestClock_RefusesWhatIsNoCalendar(t *testing.T) {
	t.Parallel()
	hours := []events.OpenHours{{Days: []string{"mon"}, From: "09:00", To: "17:00"}}
	for name, c := range map[string]events.Calendar{
		"no zone":                     {Open: hours},
		"an unknown zone":             {TimeZone: "Europe/Atlantis", Open: hours},
		"the machine's zone":          {TimeZone: "Local", Open: hours},
		"always closed":               {TimeZone: "UTC"},
		"no day":                      {TimeZone: "UTC", Open: []events.OpenHours{{From: "09:00", To: "17:00"}}},
		"an unknown day":              {TimeZone: "UTC", Open: []events.OpenHours{{Days: []string{"monday"}, From: "09:00", To: "17:00"}}},
		"no time":                     {TimeZone: "UTC", Open: []events.OpenHours{{Days: []string{"mon"}, From: "9", To: "24:00"}}},
		"a holiday that is none":      {TimeZone: "UTC", Open: hours, Holidays: []string{"2026-02-30"}},
		"holidays that run backwards": {TimeZone: "UTC", Open: hours, Holidays: []string{"2027-01-01..2026-01-01"}},
		"holidays for ever":           {TimeZone: "UTC", Open: hours, Holidays: []string{"2026-01-01..9999-12-31"}},
	} {
		if _, err := NewClock(&c); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// The calendar of a tool counts before that of its agent, and one of them is enough.
func TestGate_CalendarOfTheToolFirst(t *testing.T) {
	t.Parallel()
	of := func(zone string) string {
		return "{calendar: {timeZone: " + zone + ", open: [{from: \"09:00\", to: \"17:00\"}], holidays: [\"2026-12-25\", \"2026-12-31..2027-01-01\"]}}"
	}
	agent := asking(t, "  approvals: {policy: "+of("Europe/Paris")+"}\n")
	if got := agent.RuleFor(tool(t, "  approval: "+of("Europe/Berlin")+"\n")); got.Calendar.TimeZone != "Europe/Berlin" || got.RequesterDenied {
		t.Errorf("%+v", got)
	}
	got := agent.RuleFor(tool(t, "  approval: always\n"))
	raw, err := events.Marshal(got.Calendar)
	if want := `{"time_zone":"Europe/Paris","open":[{"days":["mon","tue","wed","thu","fri"],"from":"09:00","to":"17:00"}],"holidays":["2026-12-25","2026-12-31..2027-01-01"]}`; err != nil || string(raw) != want {
		t.Errorf("%s (%v)", raw, err)
	}
	if _, err := NewClock(got.Calendar); err != nil {
		t.Error(err)
	}
}
