package events

import (
	"testing"
	"time"
)

func TestParseDeadline(t *testing.T) {
	t.Parallel()
	accepted := time.Date(2026, 11, 29, 7, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"90m": "2026-11-29T08:30:00Z", "2d": "2026-12-01T07:00:00Z", "1s": "2026-11-29T07:00:01Z",
		"2026-11-29T08:00:00+01:00": "2026-11-29T07:00:00Z", "2020-01-01T00:00:00Z": "2020-01-01T00:00:00Z",
	} {
		if d, err := ParseDeadline(text); err != nil || d.Counted(accepted).At.Format(time.RFC3339Nano) != want || d.From != DeadlineOfStart {
			t.Errorf("%s is %+v (%v), want %s", text, d.Counted(accepted), err, want)
		}
	}
	for _, bad := range []string{"", "2h30", "-2h", "0s", "999ms", "367d", "99999999999h", "tomorrow", "2026-11-29", "2026-11-29T08:00:00", "0001-01-01T00:00:00Z",
		"9999-12-31T23:59:59-14:00", "1e3d", "2d\x00", "２h", "2026-11-29T08:00:00Z2026-11-29T08:00:00Z2026-11-29T08:00:00Z2026-11-29T08:00:00Z"} {
		if d, err := ParseDeadline(bad); err == nil {
			t.Errorf("%q is %+v", bad, d)
		}
	}
}
