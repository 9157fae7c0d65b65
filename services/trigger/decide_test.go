package trigger

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// minutely fires every whole minute of UTC; "pair" twice in each, "never" never.
type minutely struct{}

func (minutely) Fires(expr, _ string, after time.Time) (iter.Seq[Fire], error) {
	if expr == "broken" {
		return nil, errors.New("minute: broken")
	}
	return func(yield func(Fire) bool) {
		if expr == "never" {
			return
		}
		at := after.Truncate(time.Minute)
		for ; ; at = at.Add(time.Minute) {
			if !at.After(after) {
				continue
			}
			for fold := range map[bool]int{true: 2, false: 1}[expr == "pair"] {
				if !yield(Fire{At: at, Nominal: at.Format("2006-01-02T15:04"), Fold: fold}) {
					return
				}
			}
		}
	}, nil
}

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func at(offset time.Duration) *Fire {
	when := noon.Add(offset)
	return &Fire{At: when, Nominal: when.Format("2006-01-02T15:04")}
}

func TestPlace(t *testing.T) {
	t.Parallel()
	const old, current = events.Digest("sha256:old"), events.Digest("sha256:current")
	now := noon.Add(30 * time.Second)
	def := Schedule{Namespace: "default", Name: "nightly", Digest: current, Cron: "* * * * *"}
	hand := func(digest events.Digest, next *Fire) *Hand {
		return &Hand{Namespace: "default", Name: "nightly", Digest: digest, Next: next, Missed: 7, Version: 3}
	}
	with := func(change func(*Schedule)) Schedule { d := def; change(&d); return d }
	for name, tc := range map[string]struct {
		def  Schedule
		have *Hand
		want *Hand
	}{
		"a new schedule begins after now":     {def, nil, &Hand{Namespace: "default", Name: "nightly", Digest: current, Next: at(time.Minute)}},
		"nothing to change":                   {def, hand(current, at(time.Minute)), nil},
		"a due hand is left to the tick":      {def, hand(current, at(0)), nil},
		"another version begins after now":    {def, hand(old, at(time.Hour)), hand(current, at(time.Minute))},
		"another version fires what is due":   {def, hand(old, at(0)), hand(current, at(0))},
		"rules of the zone have changed":      {def, hand(current, at(time.Hour)), hand(current, at(time.Minute))},
		"it fires never":                      {with(func(d *Schedule) { d.Cron = "never" }), hand(old, at(time.Minute)), hand(current, nil)},
		"it cannot be parsed":                 {with(func(d *Schedule) { d.Cron = "broken" }), hand(old, at(time.Minute)), hand(current, nil)},
		"it cannot be read":                   {with(func(d *Schedule) { d.Broken = errors.New("x") }), hand(old, at(0)), hand(current, nil)},
		"a broken one is written once":        {with(func(d *Schedule) { d.Cron = "broken" }), hand(current, nil), nil},
		"one that was without a fire has one": {def, hand(current, nil), hand(current, at(time.Minute))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, place(tc.def, tc.have, now, minutely{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlace_Paused(t *testing.T) {
	t.Parallel()
	now := noon.Add(30 * time.Second)
	paused := Schedule{Namespace: "default", Name: "nightly", Digest: "p", Cron: "* * * * *", Paused: true}
	stopped := place(paused, &Hand{Namespace: "default", Name: "nightly", Digest: "a", Next: at(0)}, now, minutely{})
	if stopped == nil || !stopped.Paused || stopped.Next != nil {
		t.Fatalf("a paused schedule has the hand %+v", stopped)
	}
	if again := place(paused, stopped, now, minutely{}); again != nil {
		t.Errorf("pausing is written twice: %+v", again)
	}
	resumed := paused
	resumed.Digest, resumed.Paused = "a", false
	later := now.Add(72 * time.Hour)
	on := place(resumed, stopped, later, minutely{})
	if on == nil || on.Paused || !on.Next.At.After(later) {
		t.Errorf("after three days of pause the hand is %+v, want the first fire after now", on)
	}
}

func TestDue(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		expr       string
		next       *Fire
		now        time.Time
		window     time.Duration
		wantFires  []string
		wantMissed int64
	}{
		"in time":                             {"* * * * *", at(0), noon.Add(200 * time.Millisecond), time.Hour, []string{"2026-11-29T12:00/0"}, 0},
		"at the very moment":                  {"* * * * *", at(0), noon, time.Hour, []string{"2026-11-29T12:00/0"}, 0},
		"an outage makes one catch-up":        {"* * * * *", at(-2 * time.Hour), noon.Add(time.Second), time.Hour, []string{"2026-11-29T12:00/0"}, 120},
		"two fires of one instant both start": {"pair", at(-time.Minute), noon.Add(time.Second), time.Hour, []string{"2026-11-29T12:00/0", "2026-11-29T12:00/1"}, 2},
		"no catch-up beyond the window":       {"* * * * *", at(0), noon.Add(30 * time.Second), 10 * time.Second, nil, 1},
		"an outage of a year is counted back a month": {"* * * * *", at(-365 * 24 * time.Hour), noon.Add(time.Second), time.Hour,
			[]string{"2026-11-29T12:00/0"}, 31*24*60 - 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := due(Schedule{Name: "s", Cron: tc.expr}, Hand{Next: tc.next}, tc.now, tc.window, minutely{})
			if err != nil {
				t.Fatal(err)
			}
			var keys []string
			for _, f := range got.Fires {
				keys = append(keys, f.Key())
			}
			if diff := cmp.Diff(tc.wantFires, keys); diff != "" {
				t.Errorf("fires (-want +got):\n%s", diff)
			}
			if got.Missed.Count != tc.wantMissed {
				t.Errorf("missed %d, want %d", got.Missed.Count, tc.wantMissed)
			}
			if got.Next == nil || !got.Next.At.After(tc.now) {
				t.Errorf("the next fire is %+v, want one after %s", got.Next, tc.now)
			}
		})
	}
}

func TestCheckLabels(t *testing.T) {
	t.Parallel()
	many := map[string]string{}
	for i := range MaxLabels + 1 {
		many[fmt.Sprintf("k%d", i)] = "v"
	}
	for name, tc := range map[string]struct {
		labels map[string]string
		want   string // in the refusal; empty: allowed
	}{
		"none":             {nil, ""},
		"at the limits":    {map[string]string{strings.Repeat("k", 63): strings.Repeat("v", 256)}, ""},
		"unicode":          {map[string]string{"kunde": "Ä😀"}, ""},
		"too many":         {many, "17"},
		"key too long":     {map[string]string{strings.Repeat("k", 64): "v"}, "64 bytes"},
		"empty key":        {map[string]string{"": "v"}, "0 bytes"},
		"value too long":   {map[string]string{"k": strings.Repeat("v", 257)}, "labels.k"},
		"NUL in the value": {map[string]string{"k": "a\x00b"}, "NUL"},
		"half a character": {map[string]string{"k": "\xff"}, "UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := checkLabels(tc.labels)
			if tc.want == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if r, ok := AsRefusal(err); !ok || r.Code != CodeInvalidLabels || !strings.Contains(r.Error(), tc.want) {
				t.Errorf("error %v, want %s naming %q", err, CodeInvalidLabels, tc.want)
			}
		})
	}
}

func TestRepeat(t *testing.T) {
	t.Parallel()
	found := Delivery{ID: "d", RunID: "r", Digest: "sha256:a"}
	if got, err := Repeat(Start{Digest: "sha256:a", Strict: true}, found); err != nil || got != (Accepted{RunID: "r", DeliveryID: "d", Repeat: true}) {
		t.Errorf("the same request: %+v, %v", got, err)
	}
	if _, err := Repeat(Start{Digest: "sha256:b", Strict: true}, found); !errors.Is(err, ErrKeyReused) {
		t.Errorf("another request under a strict key: %v, want ErrKeyReused", err)
	}
	if got, err := Repeat(Start{Digest: "sha256:b"}, found); err != nil || got.RunID != "r" {
		t.Errorf("a sender's retry with another time in its body: %+v, %v", got, err)
	}
}

func TestDeliveryKey_LongKeysStayApart(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300)
	if deliveryKey(long) == deliveryKey(long+"y") || deliveryKey(long) != deliveryKey(long) || len(deliveryKey(long)) > MaxKey {
		t.Errorf("keys %q and %q", deliveryKey(long), deliveryKey(long+"y"))
	}
	if deliveryKey("short") != "short" {
		t.Error("a short key is changed")
	}
}
