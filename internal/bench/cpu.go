package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// meter reads the processor time of the processes that take part; 0 is none.
type meter struct{ door, postmaster int }

// spent is processor time.
type spent struct{ door, postgres, bench time.Duration }

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

func (m meter) read() (s spent, err error) {
	if s.bench, err = cpuOf(os.Getpid(), false); err != nil {
		return s, err
	}
	if s.postgres, err = cpuOf(m.postmaster, true); err != nil {
		return s, err
	}
	if m.door != 0 {
		s.door, err = cpuOf(m.door, false)
	}
	return s, err
}

func (s spent) since(before spent) spent {
	return spent{s.door - before.door, s.postgres - before.postgres, s.bench - before.bench}
}

// each is the time of one of n operations.
func (s spent) each(n int) CPU {
	us := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(max(n, 1)) }
	return CPU{Door: us(s.door), Postgres: us(s.postgres), Bench: us(s.bench)}
}
