package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Signs of a Line.
const (
	LineSame    = ' '
	LineRemoved = '-'
	LineAdded   = '+'
	LineSkipped = '…' // stands for lines that are alike
)

// Line is one line of a comparison of texts.
type Line struct {
	Sign rune
	Text string
}

const (
	maxCompared = 2000 // lines of one side that are compared line by line
	around      = 2    // lines in common that are shown beside one that differs
)

// Lines compares the values of a change as texts, line by line: a JSON string is its
// text, anything else its members one below the other.
func (c Change) Lines() []Line {
	return lineByLine(shownLines(c.Before), shownLines(c.After))
}

func shownLines(raw json.RawMessage) []string {
	if raw == nil {
		return nil
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		var b bytes.Buffer
		if json.Indent(&b, raw, "", "  ") != nil {
			b.Write(raw)
		}
		text = b.String()
	}
	list := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range list {
		if len(line) > maxChangeLine {
			list[i] = strings.ToValidUTF8(line[:maxChangeLine], "") + " …"
		}
	}
	return list
}

// lineByLine finds the longest list of lines in common, and what is beside it.
func lineByLine(before, after []string) []Line {
	var head, tail []Line
	for len(before) > 0 && len(after) > 0 && before[0] == after[0] {
		head, before, after = append(head, Line{LineSame, before[0]}), before[1:], after[1:]
	}
	for len(before) > 0 && len(after) > 0 && before[len(before)-1] == after[len(after)-1] {
		tail = append(tail, Line{LineSame, before[len(before)-1]})
		before, after = before[:len(before)-1], after[:len(after)-1]
	}
	all := append(head, middle(before, after)...)
	for i := len(tail) - 1; i >= 0; i-- {
		all = append(all, tail[i])
	}
	return folded(all)
}

func middle(before, after []string) (out []Line) {
	n, m := len(before), len(after)
	if n > maxCompared || m > maxCompared {
		n, m = 0, 0 // too long to look closer: all of it was replaced
	}
	common := make([]uint16, (n+1)*(m+1)) // of what begins at line i and at line j
	at := func(i, j int) *uint16 { return &common[i*(m+1)+j] }
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			if before[i] == after[j] {
				*at(i, j) = *at(i+1, j+1) + 1
			} else {
				*at(i, j) = max(*at(i+1, j), *at(i, j+1))
			}
		}
	}
	i, j := 0, 0
	for i < n && j < m {
		switch {
		case before[i] == after[j]:
			out = append(out, Line{LineSame, before[i]})
			i, j = i+1, j+1
		case *at(i+1, j) >= *at(i, j+1):
			out = append(out, Line{LineRemoved, before[i]})
			i++
		default:
			out = append(out, Line{LineAdded, after[j]})
			j++
		}
	}
	for ; i < len(before); i++ {
		out = append(out, Line{LineRemoved, before[i]})
	}
	for ; j < len(after); j++ {
		out = append(out, Line{LineAdded, after[j]})
	}
	return out
}

// folded leaves out lines in common that are far from any that differs.
func folded(all []Line) (out []Line) {
	near := make([]bool, len(all))
	for i, line := range all {
		if line.Sign == LineSame {
			continue
		}
		for k := max(0, i-around); k <= min(len(all)-1, i+around); k++ {
			near[k] = true
		}
	}
	skipped := 0
	tell := func() {
		if skipped > 0 {
			out = append(out, Line{LineSkipped, fmt.Sprintf("%d lines alike", skipped)})
			skipped = 0
		}
	}
	for i, line := range all {
		if !near[i] {
			skipped++
			continue
		}
		tell()
		out = append(out, line)
	}
	tell()
	return out
}
