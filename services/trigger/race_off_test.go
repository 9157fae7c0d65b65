//go:build !race

package trigger_test

const raceAllocs = 0
