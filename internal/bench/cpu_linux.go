package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// tick is the unit of /proc: USER_HZ is 100 on every platform of Linux.
const tick = 10 * time.Millisecond

// cpuOf is the processor time of a process; with its children, also those that
// have ended, when family is set.
func cpuOf(pid int, family bool) (time.Duration, error) {
	own, err := readStat(pid)
	if err != nil {
		return 0, err
	}
	if !family {
		return own.used, nil
	}
	total := own.used + own.reaped
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, dir := range all {
		id, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		if s, err := readStat(id); err == nil && s.parent == pid { // else it has ended meanwhile
			total += s.used
		}
	}
	return total, nil
}

// stat is what /proc/<pid>/stat says: see proc(5).
type stat struct {
	parent       int
	used, reaped time.Duration // its own, and of its children that have ended
}

func readStat(pid int) (stat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	// The name in parentheses may hold anything; the rest are numbers from field 3.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 15 {
		return stat{}, fmt.Errorf("/proc/%d/stat has %d fields behind the name", pid, len(fields))
	}
	numbers := [5]int{}
	for i, at := range [5]int{1, 11, 12, 13, 14} { // ppid, utime, stime, cutime, cstime
		if numbers[i], err = strconv.Atoi(string(fields[at])); err != nil {
			return stat{}, err
		}
	}
	return stat{
		parent: numbers[0],
		used:   time.Duration(numbers[1]+numbers[2]) * tick,
		reaped: time.Duration(numbers[3]+numbers[4]) * tick,
	}, nil
}

// load is the machine's load average over the last minute.
func load() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := bytes.Cut(text, []byte(" "))
	n, _ := strconv.ParseFloat(string(first), 64)
	return n
}
