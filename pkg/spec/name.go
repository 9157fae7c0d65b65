package spec

import (
	"regexp"
	"sort"
	"strings"
)

var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,61}$`)

// ValidName reports whether s may name a definition, a flow step or a pool: 1 to 62 of a-z 0-9 - _, the first a letter or digit.
func ValidName(s string) bool { return namePattern.MatchString(s) }

var namespacePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// ValidNamespace reports whether s may name a namespace: 1 to 63 of a-z 0-9 -,
// a letter or digit at both ends.
func ValidNamespace(s string) bool { return namespacePattern.MatchString(s) }

const nameRule = "1 to 62 of a-z 0-9 - _, starting with a letter or digit"

// name checks a name that stands at s.
func (d *decoder) name(s spot, value string) {
	if !ValidName(value) {
		d.fail(s, "%q is not a name: %s", shorten(value), nameRule)
	}
}

// oneOf checks that value is one of valid.
func (d *decoder) oneOf(s spot, value string, valid ...string) bool {
	for _, v := range valid {
		if v == value {
			return true
		}
	}
	if near := Nearest(value, valid); near != "" {
		d.fail(s, "%q is not known; did you mean %q?", shorten(value), near)
	} else {
		d.fail(s, "%q is not one of %s", shorten(value), strings.Join(valid, ", "))
	}
	return false
}

// atMost checks a range.
func (d *decoder) between(s spot, n, low, high int64) {
	if n < low || n > high {
		d.fail(s, "%d is outside %d to %d", n, low, high)
	}
}

func sorted(s []string) []string {
	out := append([]string(nil), s...)
	sort.Strings(out)
	return out
}

// names lists the keys of a map in order.
func names[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
