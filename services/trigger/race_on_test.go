//go:build race

package trigger_test

// race says that the race detector is on. Its pools drop at random what is put
// into them, so it adds allocations.
const race, raceAllocs = true, 20
