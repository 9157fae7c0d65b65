//go:build race

package trigger_test

// raceAllocs is what the race detector adds: its pools drop at random what is put
// into them.
const raceAllocs = 20
