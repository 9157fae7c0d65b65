package journaltest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEvenly(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		total, n int
		want     []int
	}{{0, 3, nil}, {1, 3, []int{0}}, {3, 3, []int{0, 1, 2}}, {9, 3, []int{0, 4, 8}}, {2, 1, []int{0}}} {
		if diff := cmp.Diff(tc.want, Evenly(tc.total, tc.n)); diff != "" {
			t.Errorf("%d of %d (-want +got):\n%s", tc.n, tc.total, diff)
		}
	}
}
