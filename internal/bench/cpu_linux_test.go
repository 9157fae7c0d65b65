package bench

import (
	"os"
	"testing"
	"time"
)

// Work that this process does shows in its own time, within two ticks.
func TestCPUOf_CountsWork(t *testing.T) {
	before, err := cpuOf(os.Getpid(), true)
	if err != nil {
		t.Fatal(err)
	}
	for begun, n := time.Now(), 0; ; n++ {
		used, err := cpuOf(os.Getpid(), true)
		if err != nil {
			t.Fatal(err)
		}
		if used-before >= 5*tick {
			return
		}
		if time.Since(begun) > 20*time.Second {
			t.Fatalf("%v of processor time after %v of work", used-before, time.Since(begun))
		}
	}
}
