package events

import (
	"strings"
	"testing"
)

func TestDigest_Short(t *testing.T) {
	t.Parallel()
	for d, want := range map[Digest]string{"": "", "sha256:x": "sha256:x", Digest("sha256:" + strings.Repeat("a", 12) + strings.Repeat("b", 52)): "sha256:aaaaaaaaaaaa"} {
		if got := d.Short(); got != want {
			t.Errorf("%q is shortened to %q, want %q", d, got, want)
		}
	}
}
