package lab

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Progress tells what happens: a line for each event and, on a terminal, one
// more line that is rewritten. It is safe for concurrent use.
type Progress struct {
	out   io.Writer
	tty   bool
	began time.Time

	mu     sync.Mutex
	status string
	shown  time.Time
}

// NewProgress writes to out; tty says that it is a terminal.
func NewProgress(out io.Writer, tty bool) *Progress {
	return &Progress{out: out, tty: tty, began: time.Now()}
}

// Took is how long ago it began.
func (p *Progress) Took() time.Duration { return time.Since(p.began) }

// Say prints a line that stays.
func (p *Progress) Say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fmt.Fprintf(p.out, "%5.1f s  %s\n", time.Since(p.began).Seconds(), fmt.Sprintf(format, args...))
	p.draw()
}

// Set replaces the status line. Without a terminal it is printed every 5 s.
func (p *Progress) Set(format string, args ...any) {
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

// End removes the status line.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.status = ""
}

func (p *Progress) clear() {
	if p.tty && p.status != "" {
		fmt.Fprint(p.out, "\r", strings.Repeat(" ", len(p.line())), "\r")
	}
}

func (p *Progress) draw() {
	if p.tty && p.status != "" {
		fmt.Fprint(p.out, p.line())
	}
}

func (p *Progress) line() string {
	line := fmt.Sprintf("%5.1f s  %s", time.Since(p.began).Seconds(), p.status)
	if len(line) > 78 {
		line = line[:78]
	}
	return line
}
