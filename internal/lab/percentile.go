package lab

import (
	"math"
	"slices"
	"time"
)

// Percentile is the nearest-rank percentile of ds: the smallest value that at
// least p percent of them do not exceed. Zero for no values.
func Percentile(ds []time.Duration, p float64) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(ds))
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}
