package spec

import (
	"strings"
	"testing"
	"time"
)

func budgetOf(t *testing.T, text string) (*Budget, error) {
	t.Helper()
	docs, err := Parse("t.yaml", []byte("apiVersion: holdfast/v1\nkind: Budget\nmetadata: {name: b}\nspec: "+text))
	if err != nil {
		return nil, err
	}
	return DecodeBudget(docs[0].Body)
}

// Names order as their windows do, across midnight and clock changes.
func TestBudget_PartsOfTheDay(t *testing.T) {
	t.Parallel()
	b, err := budgetOf(t, `{unit: usd, window: {timeZone: America/New_York, parts: [{name: night, startHour: 18, limit: "20.5"}, {name: day, startHour: 8, limit: 5}]}}`)
	if err != nil {
		t.Fatal(err)
	}
	last := ""
	for _, c := range []struct {
		at, name string
		ceiling  int64
	}{
		{"2026-11-28T07:59:59-05:00", "2026-11-27T18/night", 20_500_000},
		{"2026-11-28T08:00:00-05:00", "2026-11-28T08/day", 5_000_000},
		{"2026-11-28T17:59:59-05:00", "2026-11-28T08/day", 5_000_000},
		{"2026-11-28T18:00:00-05:00", "2026-11-28T18/night", 20_500_000},
		{"2026-11-29T00:30:00-05:00", "2026-11-28T18/night", 20_500_000},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		if _, name := b.Start(at); name != c.name || name < last || b.CeilingAt(at) != c.ceiling {
			t.Errorf("%s: %s with %d after %s, want %s with %d", c.at, name, b.CeilingAt(at), last, c.name, c.ceiling)
		}
		last = c.name
	}
	spring, err := budgetOf(t, `{window: {timeZone: America/New_York, parts: [{name: a, startHour: 2, limit: 1}, {name: b, startHour: 3, limit: 2}]}}`)
	if err != nil {
		t.Fatal(err)
	}
	jump := time.Date(2026, 3, 8, 7, 0, 0, 0, time.UTC) // 02:00 does not exist, 03:00 begins
	if start, name := spring.Start(jump); !start.Equal(jump) || name != "2026-03-08T03/b" {
		t.Errorf("at the jump: %s from %s", name, start)
	}
}

func TestBudget_BadParts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{limit: 3, window: {timeZone: UTC, parts: [{name: a, startHour: 1, limit: 1}, {name: b, startHour: 2, limit: 1}]}}`:     "stands beside window.parts",
		`{window: {timeZone: UTC, startHour: 3, parts: [{name: a, startHour: 1, limit: 1}, {name: b, startHour: 2, limit: 1}]}}`: "stands beside parts",
		`{window: {timeZone: UTC, parts: [{name: a, startHour: 1, limit: 1}]}}`:                                                  "give 2 to 24",
		`{window: {timeZone: UTC, parts: []}}`: "give 2 to 24",
		`{window: {timeZone: UTC, parts: [{name: a, startHour: 1, limit: 1}, {name: a, startHour: 2, limit: 1}]}}`: "of another part",
		`{window: {timeZone: UTC, parts: [{name: a, startHour: 1, limit: 1}, {name: b, startHour: 1, limit: 1}]}}`: "of another part",
		`{window: {timeZone: UTC, parts: [{name: a, startHour: 24, limit: 1}, {name: b, startHour: 1}]}}`:          "how much may be used in this part",
		`{window: {timeZone: UTC, parts: [{startHour: 4, limit: 1.5}, {name: b, startHour: 1, limit: 1}]}}`:        "no whole number",
	} {
		if _, err := budgetOf(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// The next window begins when the one of a moment is over, and has another name.
func TestBudget_Next(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{limit: 1, window: {timeZone: America/New_York, startHour: 18}}`,
		`{limit: 1, window: {timeZone: America/New_York, startHour: 2}}`,
		`{window: {timeZone: America/New_York, parts: [{name: night, startHour: 18, limit: 20}, {name: day, startHour: 8, limit: 5}]}}`,
		`{window: {timeZone: America/New_York, parts: [{name: a, startHour: 1, limit: 1}, {name: b, startHour: 2, limit: 1}, {name: c, startHour: 3, limit: 1}]}}`,
	} {
		b, err := budgetOf(t, text)
		if err != nil {
			t.Fatal(err)
		}
		for _, day := range []time.Time{time.Date(2026, 3, 7, 0, 0, 0, 0, time.UTC), time.Date(2026, 10, 31, 0, 0, 0, 0, time.UTC), time.Date(2026, 12, 31, 0, 0, 0, 0, time.UTC)} {
			for at := day; at.Before(day.Add(72 * time.Hour)); at = at.Add(17 * time.Minute) {
				next := b.Next(at)
				start, name := b.Start(next)
				_, now := b.Start(at)
				_, before := b.Start(next.Add(-time.Second))
				if !start.Equal(next) || name == now || before != now || !next.After(at) {
					t.Fatalf("%s at %s (%s): the next begins at %s (%s, from %s; a second before %s)", text, at, now, next, name, start, before)
				}
			}
		}
	}
	if b, err := budgetOf(t, `{limit: 1}`); err != nil || !b.Next(time.Now()).IsZero() {
		t.Errorf("a budget for ever has a next window (%v)", err)
	}
}
