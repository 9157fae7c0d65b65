package spec

import (
	"strings"
	"testing"
)

// schedule is a document with these lines in its spec.
func schedule(lines string) []byte {
	return []byte("apiVersion: holdfast/v1\nkind: Schedule\nmetadata: {name: x}\nspec:\n  agent: a\n  " + strings.ReplaceAll(lines, "\n", "\n  ") + "\n")
}

// What never fires or cannot be read is refused when it is saved, with the field
// named, by the parser that the trigger fires by.
func TestCaseB08_RefusedAtSave(t *testing.T) {
	t.Parallel()
	for lines, want := range map[string]string{
		`cron: "0 0 31 4 *"`:                                "spec.cron: day-of-month \"31\" and month \"4\": this expression never fires",
		`cron: "0 0 30 2 *"`:                                "never fires",
		`cron: "0 0 31 4,6 ?"`:                              "never fires",
		`cron: "@every 0s"`:                                 "spec.cron: unknown macro",
		`cron: "* * * * * *"`:                               "spec.cron: cron expression has 6 fields",
		`cron: "60 * * * *"`:                                "spec.cron: minute",
		`cron: "0 0 0 * *"`:                                 "spec.cron: day-of-month",
		`cron: "TZ= * * * * *"`:                             "spec.cron: time zone",
		`cron: "TZ=0"`:                                      "spec.cron: time zone",
		`cron: "` + strings.Repeat("*", 10_000) + `"`:       "spec.cron: cron expression of 10000 characters",
		`cron: ""`:                                          "exactly one of cron, every is required",
		`input: {}`:                                         "exactly one of cron, every is required",
		"cron: \"0 2 * * *\"\ntimeZone: Mars/Phobos":        "spec.timeZone",
		"cron: \"0 2 * * *\"\ntimeZone: Local":              "spec.timeZone",
		"cron: \"TZ=Europe/Rome 0 2 * * *\"\ntimeZone: UTC": "spec.timeZone: is UTC, and the expression names Europe/Rome",
		"cron: \"0 2 * * *\"\nevery: 15m":                   "exactly one of cron, every is allowed",
		"cron: \"0 2 * * *\"\noffset: 5m":                   "spec.offset: belongs to every",
		"every: 15m\noffset: 15m":                           "spec.offset",
		"every: 1500ms":                                     "spec.every: 1.5s is not a whole number",
		"every: 100ms":                                      "spec.every",
		"every: -1h":                                        "spec.every",
		"every: 1h\noverlap: never":                         "spec.overlap",
		"every: 1h\noverlap: {policy: skip, cap: 3}":        "spec.overlap.cap: belongs to bufferAll",
		"every: 1h\noverlap: {policy: bufferAll, cap: -3}":  "spec.overlap.cap",
		"every: 1h\ncatchUp: {policy: some}":                "spec.catchUp.policy",
		"every: 1h\ncatchUp: {window: 1s}":                  "spec.catchUp.window",
		"every: 1h\ncatchUp: {cap: 3}":                      "spec.catchUp.cap: belongs to the policy all",
		"every: 1h\nexclude: [\"2026-02-30\"]":              "spec.exclude[0]",
		"every: 1h\nexclude: [\"2026-02-03..2026-02-01\"]":  "spec.exclude[0]: \"2026-02-03..2026-02-01\" runs backwards",
		"every: 1h\nstartAt: tomorrow":                      "spec.startAt",
		"every: 1h\nmaxFires: -1":                           "spec.maxFires",
		"every: 1h\nstartAt: \"2027-01-01T00:00:00Z\"\nendAt: \"2026-01-01T00:00:00Z\"": "spec.endAt: is not after startAt",
	} {
		_, err := Parse("x.yaml", schedule(lines))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: error %v, want one with %q", lines, err, want)
		}
	}
	for _, lines := range []string{
		`cron: "0 0 29 2 *"`, `cron: "CRON_TZ=Europe/Rome 0 2 * * *"`, "cron: \"CRON_TZ=Europe/Rome 0 2 * * *\"\ntimeZone: Europe/Rome",
		`cron: "0 0 LW 12 1#2"`, "every: 15m\noffset: 5m", "every: 1d\njitter: 10m",
	} {
		if _, err := Parse("x.yaml", schedule(lines)); err != nil {
			t.Errorf("%s is refused: %v", lines, err)
		}
	}
}

// A stored body reads back as what was written, and is written the same again.
func TestSchedule_RoundTrip(t *testing.T) {
	t.Parallel()
	docs, err := Parse("x.yaml", schedule(`every: 90m
offset: 15m
timeZone: Europe/Rome
startAt: "2026-11-29T02:00:00+01:00"
endAt: "2027-11-29T02:00:00Z"
exclude: ["2026-12-25", "2026-12-31..2027-01-01"]
maxFires: 100
jitter: 2m
overlap: {policy: bufferAll, cap: 50}
catchUp: {window: 6h, policy: all, cap: 20}`))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"agent":"a","catchUp":{"cap":20,"policy":"all","window":"6h"},"endAt":"2027-11-29T02:00:00Z","every":"1h30m",` +
		`"exclude":["2026-12-25","2026-12-31..2027-01-01"],"input":{},"jitter":"2m","maxFires":100,"offset":"15m",` +
		`"overlap":{"cap":50,"policy":"bufferAll"},"paused":false,"startAt":"2026-11-29T01:00:00Z","timeZone":"Europe/Rome"}`
	if body := string(docs[0].Body); !strings.HasSuffix(body, `"spec":`+want+"}") {
		t.Errorf("body %s\nwant spec %s", body, want)
	}
	back, err := DecodeSchedule(docs[0].Body)
	if err != nil {
		t.Fatal(err)
	}
	if back.Overlap != (Overlap{OverlapBufferAll, 50}) || !back.StartAt.Equal(docs[0].Schedule.StartAt.Time) || !back.Exclude[1].Has("2027-01-01") {
		t.Errorf("read back as %+v", back)
	}
	plain, err := Parse("x.yaml", schedule(`cron: "CRON_TZ=Europe/Rome 0 2 * * *"`))
	if err != nil {
		t.Fatal(err)
	}
	if got := plain[0].Schedule.TimeZone; got != "Europe/Rome" {
		t.Errorf("time zone %s, want that of the expression", got)
	}
}
