package main

import (
	"runtime"
	"testing"
)

// Less than the room is made and dropped without a collection for each few
// megabytes of it. It runs alone: the heap is the process's.
func TestHoldHeapRoom_CollectsSeldom(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	collections := func() uint32 {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 200 {
			kept = make([]byte, 256<<10)
		}
		runtime.ReadMemStats(&after)
		return after.NumGC - before.NumGC
	}
	release := holdHeapRoom()
	with := collections()
	release()
	if with > 1 {
		t.Errorf("%d collections for 50 MiB, want at most one", with)
	}
}

var kept []byte // escapes, so that it is made on the heap
