// Package clocktest moves the clock of a test's process: everything in it, libraries too,
// reads another time of day, as on a machine whose clock is wrong. What is measured by
// the monotonic clock (timers, time-outs, time.Since of a time that was read) stays as it
// is. No shipping code imports it.
package clocktest

import (
	"fmt"
	"os"
	"time"
)

// Env is the variable from which FromEnv reads how far the clock is off: "-10m".
const Env = "HOLDFAST_TEST_CLOCK_OFFSET"

// FromEnv moves the clock as the environment says, and not at all when it says nothing.
// It is called before anything else runs.
func FromEnv() error {
	text := os.Getenv(Env)
	if text == "" {
		return nil
	}
	by, err := time.ParseDuration(text)
	if err != nil || by%time.Second != 0 {
		return fmt.Errorf("%s is %q, want whole seconds, like -10m", Env, text)
	}
	return move(by)
}
