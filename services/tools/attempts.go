package tools

import (
	"crypto/rand"
	"encoding/hex"
	"sync"
)

// attempts is what this process knows about its own attempts. An attempt that
// it does not list may have acted.
type attempts struct {
	mu    sync.Mutex
	known map[string]Own
}

func newAttempts() *attempts { return &attempts{known: map[string]Own{}} }

func newAttemptID() string {
	var b [12]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic("read random bytes: " + err.Error())
	}
	return "t-" + hex.EncodeToString(b[:])
}

// start lists an attempt that a handler is about to commit.
func (a *attempts) start(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known[id] = OwnRunning
}

// idle says that no handler works on the attempt any more and it has not acted.
func (a *attempts) idle(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known[id] = OwnIdle
}

// forget says that nothing is known about the attempt.
func (a *attempts) forget(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.known, id)
}

func (a *attempts) own(id string) Own {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.known[id]
}
