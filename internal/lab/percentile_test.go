package lab

import (
	"testing"
	"time"
)

func TestPercentile(t *testing.T) {
	t.Parallel()
	seconds := func(ns ...int) []time.Duration {
		var ds []time.Duration
		for _, n := range ns {
			ds = append(ds, time.Duration(n)*time.Second)
		}
		return ds
	}
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = 100 - i
	}
	tests := map[string]struct {
		ds   []time.Duration
		p    float64
		want time.Duration
	}{
		"nothing":                       {nil, 50, 0},
		"one value is every percentile": {seconds(7), 1, 7 * time.Second},
		"median of an even number":      {seconds(4, 1, 3, 2), 50, 2 * time.Second},
		"median of an odd number":       {seconds(3, 1, 2), 50, 2 * time.Second},
		"p99 of few is the largest":     {seconds(1, 9, 2, 3, 4), 99, 9 * time.Second},
		"p99 of a hundred":              {seconds(hundred...), 99, 99 * time.Second},
		"p100":                          {seconds(hundred...), 100, 100 * time.Second},
		"p0 is the smallest":            {seconds(hundred...), 0, 1 * time.Second},
	}
	for name, tc := range tests {
		if got := Percentile(tc.ds, tc.p); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
