package spec

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Size is a number of bytes, written like 65536, "64KiB" or "1MiB".
type Size int64

// MarshalJSON writes the number of bytes, so that equal sizes have one digest.
func (x Size) MarshalJSON() ([]byte, error) { return json.Marshal(int64(x)) }

func (x *Size) readNode(d *decoder, s spot) {
	if s.n.kind != numberNode && s.n.kind != textNode {
		d.fail(s, "expected a size like 65536, \"64KiB\" or \"1MiB\", found %s", describe(s.n))
		return
	}
	text, factor := s.n.text, int64(1)
	for unit, n := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20} {
		if number, ok := strings.CutSuffix(text, unit); ok {
			text, factor = number, n
		}
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		d.fail(s, "%q is not a size like 65536, \"64KiB\" or \"1MiB\"", shorten(s.n.text))
		return
	}
	*x = Size(int64(n) * factor)
}
