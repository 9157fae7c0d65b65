package failpoint

import (
	"os"
	"sync"
	"sync/atomic"
)

// watched is the file that Env names; nil when it names none.
var watched atomic.Pointer[file]

// file arms what its text says. It is read at every hit, which is for tests only:
// so a process is armed when its work is under way, and not while it starts.
type file struct {
	path, log string

	mu     sync.Mutex
	text   string
	disarm func()
}

func (f *file) read() {
	f.mu.Lock()
	defer f.mu.Unlock()
	b, err := os.ReadFile(f.path)
	if err != nil {
		b = nil
	}
	if string(b) == f.text {
		return
	}
	f.disarm()
	f.text = string(b)
	if f.disarm, err = Arm(f.text, f.log); err != nil {
		misspelt(err)
	}
}
