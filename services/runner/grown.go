package runner

import "maps"

// grown is a map that only grows with its run. A clone shares what was there, so
// that a run's thousandth row costs what its tenth did.
type grown[K comparable, V any] struct {
	old   []map[K]V // never written again; each more than twice the next
	young map[K]V
}

func (g *grown[K, V]) put(k K, v V) {
	if g.young == nil {
		g.young = map[K]V{}
	}
	g.young[k] = v
}

// get returns what was put last for k.
func (g *grown[K, V]) get(k K) (v V, ok bool) {
	if v, ok = g.young[k]; ok {
		return v, true
	}
	for i := len(g.old) - 1; i >= 0; i-- {
		if v, ok = g.old[i][k]; ok {
			return v, true
		}
	}
	return v, false
}

func (g *grown[K, V]) has(k K) bool { _, ok := g.get(k); return ok }

// clone leaves g as it is. Each entry is copied a few times in all, whatever
// number of clones there is.
func (g *grown[K, V]) clone() grown[K, V] {
	if len(g.young) == 0 {
		return grown[K, V]{old: g.old}
	}
	last := g.young
	n, size := len(g.old), len(last)
	for n > 0 && len(g.old[n-1]) <= 2*size {
		n--
		size += len(g.old[n])
	}
	if n < len(g.old) {
		merged := maps.Clone(g.old[n])
		for _, layer := range g.old[n+1:] {
			maps.Copy(merged, layer)
		}
		maps.Copy(merged, last)
		last = merged
	} else {
		last = maps.Clone(last)
	}
	old := make([]map[K]V, n, n+1)
	copy(old, g.old)
	return grown[K, V]{old: append(old, last)}
}

// everything is a map of its own.
func (g *grown[K, V]) everything() map[K]V {
	out := map[K]V{}
	for _, layer := range g.old {
		maps.Copy(out, layer)
	}
	maps.Copy(out, g.young)
	return out
}
