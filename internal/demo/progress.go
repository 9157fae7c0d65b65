package demo

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// progress tells what happens: a line for each event and, on a terminal, one
// more line that is rewritten. It is safe for concurrent use.
type progress struct {
	out   io.Writer
	tty   bool
	began time.Time

	mu     sync.Mutex
	status string
	shown  time.Time
}

func newProgress(out io.Writer, tty bool) *progress {
	return &progress{out: out, tty: tty, began: time.Now()}
}

// say prints a line that stays.
func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fmt.Fprintf(p.out, "%5.1f s  %s\n", time.Since(p.began).Seconds(), fmt.Sprintf(format, args...))
	p.draw()
}

// set replaces the status line. Without a terminal it is printed every 5 s.
func (p *progress) set(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.status = fmt.Sprintf(format, args...)
	p.draw()
	if !p.tty && time.Since(p.shown) >= 5*time.Second {
		p.shown = time.Now()
		fmt.Fprintf(p.out, "%5.1f s  %s\n", time.Since(p.began).Seconds(), p.status)
	}
}

// end removes the status line.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.status = ""
}

func (p *progress) clear() {
	if p.tty && p.status != "" {
		fmt.Fprint(p.out, "\r", strings.Repeat(" ", len(p.line())), "\r")
	}
}

func (p *progress) draw() {
	if p.tty && p.status != "" {
		fmt.Fprint(p.out, p.line())
	}
}

func (p *progress) line() string {
	line := fmt.Sprintf("%5.1f s  %s", time.Since(p.began).Seconds(), p.status)
	if len(line) > 78 {
		line = line[:78]
	}
	return line
}
