package spec

import (
	"strings"
	"testing"
	"time"
)

func TestDigest_Due(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ at, zone, now, want string }{
		{"08:00", "Europe/Berlin", "2026-11-30T06:59:59Z", ""},
		{"08:00", "Europe/Berlin", "2026-11-30T07:00:00Z", "2026-11-30"},
		{"08:00", "Europe/Berlin", "2026-11-30T07:59:59Z", "2026-11-30"},
		{"08:00", "Europe/Berlin", "2026-11-30T08:00:00Z", ""},
		{"08:00", "Europe/Berlin", "2026-07-01T06:30:00Z", "2026-07-01"}, // summer
		{"23:30", "UTC", "2026-11-30T00:10:00Z", "2026-11-29"},
		{"23:30", "America/New_York", "2026-12-01T05:10:00Z", "2026-11-30"},
		{"00:00", "Asia/Kolkata", "2026-11-29T18:30:00Z", "2026-11-30"},
		{"02:30", "Europe/Berlin", "2026-03-29T01:29:00Z", ""},           // there is no 02:30
		{"02:30", "Europe/Berlin", "2026-03-29T01:30:00Z", "2026-03-29"}, // it is 03:30
		{"02:30", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25"}, // the first
		{"02:30", "Europe/Berlin", "2026-10-25T01:30:00Z", ""},           // the second
	} {
		x := Digest{At: tc.at, TimeZone: tc.zone}
		now, err := time.Parse(time.RFC3339, tc.now)
		if err != nil {
			t.Fatal(err)
		}
		if day, due := x.Due(now); day != tc.want || due != (tc.want != "") {
			t.Errorf("%s in %s at %s: %q, %t; want %q", tc.at, tc.zone, tc.now, day, due, tc.want)
		}
	}
}

func TestDigest_Decode(t *testing.T) {
	t.Parallel()
	parse := func(digest string) (*Channel, error) {
		docs, err := Parse("channel.yaml", []byte("apiVersion: holdfast/v1\nkind: Channel\nmetadata: {name: ops}\nspec:\n  webhook: {url: 'https://ops.example.com/', secrets: [{env: HOLDFAST_SECRET_OPS}]}\n  digest: "+digest+"\n"))
		if err != nil {
			return nil, err
		}
		return docs[0].Channel, nil
	}
	c, err := parse(`{at: "08:00"}`)
	if err != nil || c.Digest.At != "08:00" || c.Digest.TimeZone != "UTC" {
		t.Errorf("%+v, %v", c, err)
	}
	for digest, want := range map[string]string{
		`{}`:                                 "time of the day",
		`{at: 8:00}`:                         "at",
		`{at: "24:00"}`:                      "24:00",
		`{at: "8:00"}`:                       "8:00",
		`{at: "08:00:00"}`:                   "08:00:00",
		`{at: "08:00", zone: UTC}`:           "zone",
		`{at: "08:00", timeZone: Mars/Base}`: "Mars/Base",
		`"08:00"`:                            "digest",
	} {
		if _, err := parse(digest); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want an error with %q", digest, err, want)
		}
	}
}
