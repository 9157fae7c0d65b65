package sim

import "slices"

// Shrink takes faults away, half of them, a quarter, and so on down to single ones,
// until each that is left is needed; then it looks whether smaller numbers do as
// well. fails reports whether what is left still fails in the same way; it is asked
// at most tries times.
func Shrink(faults []Fault, tries int, fails func([]Fault) bool) []Fault {
	ask := func(f []Fault) bool {
		if tries <= 0 {
			return false
		}
		tries--
		return fails(f)
	}
	for size := max(1, len(faults)/2); ; {
		smaller := false
		for from := 0; from < len(faults); {
			rest := slices.Concat(faults[:from], faults[min(from+size, len(faults)):])
			if ask(rest) {
				faults, smaller = rest, true
			} else {
				from += size
			}
		}
		switch {
		case size > 1:
			size = max(1, size/2)
		case !smaller || tries <= 0:
			return lowered(faults, ask)
		}
	}
}

// lowered tries smaller numbers for the faults that are left.
func lowered(faults []Fault, ask func([]Fault) bool) []Fault {
	for i := range faults {
		for v := uint16(1); v < faults[i].Value; v++ {
			other := slices.Clone(faults)
			other[i].Value = v
			if ask(other) {
				faults = other
				break
			}
		}
	}
	return faults
}
