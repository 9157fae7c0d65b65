//go:build !race

package trigger_test

const race, raceAllocs = false, 0
