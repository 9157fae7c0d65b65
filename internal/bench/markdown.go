package bench

import (
	"fmt"
	"strings"
)

// Sections are the parts of a document that a report's tables belong to, in order:
// each stands between "<!-- bench NAME -->" and "<!-- /bench NAME -->".
func Sections() []string {
	return append(append([]string{limitsWorkload.Name}, Names()...), "goals")
}

// Write puts the tables into a document's sections, and leaves alone those of which
// it has no rows. It is an error when such a section is missing.
func (r *Report) Write(document string) (string, error) {
	for _, t := range r.tables() {
		body := fmt.Sprintf("\n%s: %s.\n\n%s", r.At.Format("2006-01-02"), r.machine(), t.markdown())
		var err error
		if document, err = replaceSection(document, t.section, body); err != nil {
			return "", err
		}
	}
	return document, nil
}

// replaceSection puts text between the markers of a section.
func replaceSection(document, section, text string) (string, error) {
	begin, end := "<!-- bench "+section+" -->\n", "<!-- /bench "+section+" -->"
	before, rest, ok := strings.Cut(document, begin)
	if !ok {
		return "", fmt.Errorf("the document has no line %q", strings.TrimSpace(begin))
	}
	_, after, ok := strings.Cut(rest, end)
	if !ok {
		return "", fmt.Errorf("the document has no line %q behind %q", end, strings.TrimSpace(begin))
	}
	return before + begin + text + "\n" + end + after, nil
}

func (t table) markdown() string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(t.head)
	b.WriteString(strings.Repeat("|---", len(t.head)) + "|\n")
	for _, cells := range t.rows {
		line(cells)
	}
	return b.String()
}

// StaleSections tells what a document's sections lack: a marker, or a table whose head
// is another than a report has now.
func StaleSections(document string) (stale []string) {
	heads := map[string][]string{limitsWorkload.Name: limitHead, "goals": goalHead}
	for _, w := range Workloads() {
		heads[w.Name] = workloadTable(w).head
	}
	for _, section := range Sections() {
		_, rest, ok := strings.Cut(document, "<!-- bench "+section+" -->\n")
		text, _, closed := strings.Cut(rest, "<!-- /bench "+section+" -->")
		switch {
		case !ok || !closed:
			stale = append(stale, fmt.Sprintf("%s: its markers are missing", section))
		case !strings.Contains(text, "| "+strings.Join(heads[section], " | ")+" |\n"):
			stale = append(stale, fmt.Sprintf("%s: its table has another head than a report", section))
		}
	}
	for _, part := range strings.Split(document, "<!-- bench ")[1:] {
		name, _, _ := strings.Cut(part, " -->")
		if _, ok := heads[name]; !ok {
			stale = append(stale, fmt.Sprintf("%s: no workload has that name", name))
		}
	}
	return stale
}
