package sim

import (
	"fmt"
	"strings"
)

// Found is a world that broke a promise, made as small as it could be.
type Found struct {
	Seed   uint64
	Broken *Broken
	Faults int    // that are left
	Trace  string // numbered lines
	Lines  int
	Plays  int // to make it small
}

// String is what a person reads.
func (f Found) String() string {
	return fmt.Sprintf("seed %d breaks a promise: %s\n%d faults are needed for it, of these %d lines:\n%s", f.Seed, f.Broken, f.Faults, f.Lines, f.Trace)
}

// Explain plays a seed and, when it breaks a promise, makes the world small that
// breaks the same one; nil when it does not. tries bounds how many worlds are played
// for that.
func Explain(seed uint64, flaw Flaw, tries int) *Found {
	r := Play(Seeded(seed), flaw, false)
	if r.Broken == nil {
		return nil
	}
	f := &Found{Seed: seed}
	faults := Shrink(r.Faults, tries, func(p []Fault) bool {
		f.Plays++
		x := Play(Replayed(p), flaw, false)
		return x.Broken != nil && x.Broken.Promise == r.Broken.Promise
	})
	x := Play(Replayed(faults), flaw, true)
	f.Broken, f.Trace, f.Faults = x.Broken, x.Trace, len(faults)
	f.Lines = strings.Count(f.Trace, "\n")
	return f
}
