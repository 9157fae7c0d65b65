package main

import "testing"

func TestCeilingOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		unit, text string
		want       int64
	}{
		{"cost", "2.50", 2_500_000}, {"micro_usd", "$0.000001", 1}, {"wallTime", "90m", 5400}, {"wallTime", "2d", 172_800}, {"tokens", "400000", 400_000}, {"toolCalls", "6", 6},
		{"cost", "-1", 0}, {"cost", "0", 0}, {"cost", "1e3", 0}, {"wallTime", "60", 0}, {"wallTime", "1ms", 0}, {"tokens", "1.5", 0}, {"tokens", "0", 0}, {"modelCalls", "many", 0},
	} {
		if got, err := ceilingOf(c.unit, c.text); got != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("%s %s: %d, %v, want %d", c.unit, c.text, got, err, c.want)
		}
	}
}
