package spec

import "sort"

// Nearest returns the candidate that name was most likely meant to be, or ""
// when none is close: at most a third of its letters differ, but one may
// always differ. Letter case costs nothing. Ties go to the first in byte order.
func Nearest(name string, candidates []string) string {
	if len(name) > 100 {
		return ""
	}
	sorted := append([]string(nil), candidates...)
	sort.Strings(sorted)
	best, bestDistance := "", 0
	for _, c := range sorted {
		d := editDistance(fold(name), fold(c))
		if limit := max(1, max(len(name), len(c))/3); d > limit {
			continue
		}
		if best == "" || d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

func fold(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// editDistance counts insertions, deletions, substitutions and swaps of
// neighbours (optimal string alignment) between bytes of a and b.
func editDistance(a, b string) int {
	before, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(b)]
}
