package sim

import "math/rand/v2"

// Choices decides everything in a world that is not decided by the product: who
// goes on, who dies, what the model says. Every choice is a small number and 0 is
// always what happens when nothing goes wrong. A choice is named by where it is made
// (at which step of which handler, for the how manieth time), so that another choice
// can be taken back without giving this one another meaning.
type Choices struct {
	rng   *rand.Rand // nil: what is replayed, and 0 elsewhere
	plan  map[uint64]uint16
	times map[uint64]uint64
	place uint64
	made  []Fault
}

// Fault is a choice that is not 0.
type Fault struct {
	Place uint64
	Value uint16
}

// Seeded draws choices from a seed.
func Seeded(seed uint64) *Choices {
	return &Choices{rng: rand.New(rand.NewPCG(seed, 0x686f6c6466617374)), times: map[uint64]uint64{}}
}

// Replayed repeats faults; everywhere else nothing goes wrong.
func Replayed(faults []Fault) *Choices {
	c := &Choices{plan: map[uint64]uint16{}, times: map[uint64]uint64{}}
	for _, f := range faults {
		c.plan[f.Place] = f.Value
	}
	return c
}

// at says where the next choices are made.
func (c *Choices) at(place uint64) { c.place = place }

// pick chooses one of n, 0 to n-1. It is not 0 about once in oneIn times.
func (c *Choices) pick(what string, n, oneIn int) int {
	return c.choose(what, n, func() int {
		if c.rng.IntN(oneIn) != 0 {
			return 0
		}
		return 1 + c.rng.IntN(n-1)
	})
}

// any chooses one of n with equal odds.
func (c *Choices) any(what string, n int) int {
	return c.choose(what, n, func() int { return c.rng.IntN(n) })
}

func (c *Choices) choose(what string, n int, draw func() int) (v int) {
	if n < 2 {
		return 0
	}
	place := mix(c.place, hash(what))
	c.times[place]++
	place = mix(place, c.times[place])
	if c.rng == nil {
		v = int(c.plan[place]) % n
	} else {
		v = draw()
	}
	if v != 0 {
		c.made = append(c.made, Fault{place, uint16(v)})
	}
	return v
}

// rarely is true about once in oneIn times.
func (c *Choices) rarely(what string, oneIn int) bool { return c.pick(what, 2, oneIn) == 1 }

// hash is FNV-1a.
func hash(text string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	return h
}

func mix(a, b uint64) uint64 {
	a ^= b + 0x9e3779b97f4a7c15 + a<<6 + a>>2
	a = (a ^ a>>31) * 0xbf58476d1ce4e5b9
	return a ^ a>>29
}
