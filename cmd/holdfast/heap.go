package main

import (
	"os"
	"runtime"
)

// heapRoom is how much garbage a service may make before it is collected, however
// little it holds. Without it, a service that holds a few megabytes collects many
// times a second under load, for a fifth of its processor time.
const heapRoom = 64 << 20

// holdHeapRoom makes the collector see a heap that is larger than it is by a block
// that nobody writes to, so that it takes no memory. GOGC and GOMEMLIMIT, when
// they are set, are left alone. release ends it.
func holdHeapRoom() (release func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	block := make([]byte, heapRoom)
	return func() { runtime.KeepAlive(block) }
}
