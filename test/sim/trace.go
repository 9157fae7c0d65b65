package sim

import (
	"fmt"
	"strings"
)

// trace is what happened, one line for each stretch in which one handler went on.
type trace struct {
	lines []*line
}

// line is a stretch of one handler's steps.
type line struct {
	who, what string
	did       []string
	more      bool // it began in a line above
}

func (l *line) String() string {
	what := l.what
	if l.more {
		what += " …"
	}
	if what == "" {
		return fmt.Sprintf("%-12s %s", l.who, strings.Join(l.did, " "))
	}
	return fmt.Sprintf("%-12s %s: %s", l.who, what, strings.Join(l.did, " "))
}

// String numbers the lines.
func (t *trace) String() string {
	var b strings.Builder
	for i, l := range t.lines {
		fmt.Fprintf(&b, "%3d  %s\n", i+1, l)
	}
	return b.String()
}

// note says what a job did in its line, or in a new one if another was at work since.
func (w *World) note(j *job, did string) {
	if w.trace == nil {
		return
	}
	lines := w.trace.lines
	if j.line == nil || len(lines) == 0 || lines[len(lines)-1] != j.line {
		who := j.p.name
		l := &line{who: who, what: j.what, more: j.line != nil}
		w.trace.lines = append(w.trace.lines, l)
		j.line = l
	}
	j.line.did = append(j.line.did, did)
}

// tell adds a line about a process, or about the world when p is nil.
func (w *World) tell(p *proc, what string) {
	if w.trace == nil {
		return
	}
	who := "world"
	if p != nil {
		who = p.name
	}
	w.trace.lines = append(w.trace.lines, &line{who: who, did: []string{what}})
}
