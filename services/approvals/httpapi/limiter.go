package httpapi

import (
	"sync"
	"time"
)

// limiter bounds how often one key comes in a window. It holds at most a few
// thousand keys; when there are more it begins anew.
type limiter struct {
	most   int
	window time.Duration

	mu    sync.Mutex
	began time.Time
	seen  map[string]int
}

const maxLimited = 4096

func newLimiter(most int, window time.Duration) *limiter {
	return &limiter{most: most, window: window, seen: map[string]int{}}
}

// allow counts one request of key at now.
func (l *limiter) allow(key string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.began) >= l.window || len(l.seen) >= maxLimited {
		l.began, l.seen = now, map[string]int{}
	}
	l.seen[key]++
	return l.seen[key] <= l.most
}
