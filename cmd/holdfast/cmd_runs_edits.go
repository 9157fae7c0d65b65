package main

import (
	"fmt"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/client"
)

// editLines names the calls of a run that people changed, what was asked and how it
// was changed.
func editLines(edits []client.CallEdit) string {
	var b strings.Builder
	for _, e := range edits {
		fmt.Fprintf(&b, "%s, asked as %s, by %s at %s through %s", clean(e.Tool), short(e.Args, 200), clean(e.By), stamp(e.At), clean(e.Door))
		if e.Comment != "" {
			b.WriteString(": " + cut(oneLine(clean(e.Comment)), 120))
		}
		b.WriteString("\n")
		for line := range strings.SplitSeq(changeLines(e.Changes), "\n") {
			b.WriteString("  " + line + "\n")
		}
	}
	return b.String()
}
