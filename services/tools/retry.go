package tools

import "time"

// Retry says when a call is tried again, and how often. What waits is a row; it
// holds neither a slot nor, beyond a few seconds, a message.
type Retry struct {
	// Waits are the pauses after the first, the second, ... attempt. The last
	// one goes on.
	Waits []time.Duration
	// Attempts bounds the attempts of one begin, so that a call cannot be
	// repeated for ever, nor kill one worker after another.
	Attempts int
	// Age bounds the time from Since to the last attempt; zero is no bound.
	Age   time.Duration
	Since time.Time // by the database's clock
}

// quickRetry is for calls that a run waits for.
var quickRetry = Retry{
	Waits: []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second,
		16 * time.Second, 32 * time.Second, time.Minute},
	Attempts: maxAttempts,
}

// maxAttempts bounds the attempts of calls that a run waits for.
const maxAttempts = 10

// longestHint is how long the other side may make us wait, when the schedule's
// own last wait is not longer.
const longestHint = time.Hour

// wait is the pause after the given number of attempts. It is never shorter than
// the other side's hint, which counts up to longestHint.
func (r Retry) wait(attempts int, hint time.Duration) time.Duration {
	last := r.Waits[len(r.Waits)-1]
	w := r.Waits[min(max(attempts, 1), len(r.Waits))-1]
	return max(w, min(hint, max(longestHint, last)))
}

// over reports whether the given number of attempts, or the time, is all there
// was.
func (r Retry) over(attempts int, now time.Time) bool {
	return attempts >= r.Attempts || r.Age > 0 && !now.Before(r.Since.Add(r.Age))
}

// fit shortens a wait so that the last attempt is made when the time is over.
func (r Retry) fit(wait time.Duration, now time.Time) time.Duration {
	if r.Age == 0 {
		return wait
	}
	return max(0, min(wait, r.Since.Add(r.Age).Sub(now)))
}
