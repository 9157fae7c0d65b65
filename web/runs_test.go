package web

import (
	"testing"
	"time"
)

func TestSpan_SaysADurationAsPeopleDo(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "0 s", 0: "0 s", 999 * time.Microsecond: "0 s", 40*time.Millisecond + 600*time.Microsecond: "40 ms", 100 * time.Millisecond: "0.1 s", 3290 * time.Millisecond: "3.2 s",
		9999 * time.Millisecond: "9.9 s", 10 * time.Second: "10 s", 59*time.Second + 900*time.Millisecond: "59 s", time.Minute: "1 min", 245 * time.Second: "4 min 5 s", 9*time.Minute + 59*time.Second: "9 min 59 s",
		10*time.Minute + 59*time.Second: "10 min", 59 * time.Minute: "59 min", time.Hour: "1 h", 5*time.Hour + 28*time.Minute + 59*time.Second: "5 h 28 min", 24 * time.Hour: "1 d",
		76*time.Hour + 59*time.Minute: "3 d 4 h", 400 * 24 * time.Hour: "400 d",
	} {
		if got := unbroken(Span(d)); got != want {
			t.Errorf("Span(%s) = %q, want %q", d, got, want)
		}
	}
}

// unbroken shows the no-break space between a number and its unit as a plain one; any
// other space stays wrong.
func unbroken(s string) string {
	out := []rune(s)
	for i, c := range out {
		if c == '\u00a0' && i > 0 && out[i-1] >= '0' && out[i-1] <= '9' {
			out[i] = ' '
		} else if c == ' ' && i > 0 && out[i-1] >= '0' && out[i-1] <= '9' {
			out[i] = '_'
		}
	}
	return string(out)
}

func TestThousands_GroupsDigits(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1_002_030: "1,002,030"} {
		if got := Thousands(n); got != want {
			t.Errorf("Thousands(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestShort_IsTheEndOfAnID(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{"": "", "12345678": "12345678", "0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a": "3d4c5b6a"} {
		if got := Short(id); got != want {
			t.Errorf("Short(%q) = %q, want %q", id, got, want)
		}
	}
}
