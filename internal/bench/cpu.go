package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// meter knows whose processor time is read beside that of the lab's processes.
type meter struct{ postmaster int }

// newMeter finds the postmaster of a data directory.
func newMeter(dataDir string) (meter, error) {
	text, err := os.ReadFile(filepath.Join(dataDir, "postmaster.pid"))
	if err != nil {
		return meter{}, err
	}
	first, _, _ := bytes.Cut(text, []byte("\n"))
	pid, err := strconv.Atoi(string(first))
	if err != nil {
		return meter{}, fmt.Errorf("postmaster.pid: %w", err)
	}
	return meter{postmaster: pid}, nil
}
