package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/mdtest"
)

const root = "../.."

var (
	// span is inline code; a line never holds half of one.
	span = regexp.MustCompile("`([^`\n]+)`")
	// source is a file, and a name that it declares: "services/x/y.go: Name".
	source = regexp.MustCompile(`^([\w./-]+\.go)(?:: (\w+))?$`)
	path   = regexp.MustCompile(`^[\w./-]+$`)
)

// TestDocs_NameWhatExists reads every document of the project and wants each
// file, folder and declaration that it names.
func TestDocs_NameWhatExists(t *testing.T) {
	t.Parallel()
	tops := map[string]bool{}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		tops[e.Name()] = true
	}
	names := 0
	for _, page := range pages(t) {
		for _, m := range span.FindAllStringSubmatch(page.Prose, -1) {
			name := m[1]
			if s := source.FindStringSubmatch(name); s != nil && strings.Contains(s[1], "/") {
				names++
				checkSource(t, page.Path, s[1], s[2])
				continue
			}
			first, _, below := strings.Cut(name, "/")
			if !below || !path.MatchString(name) || !tops[first] || first == "bin" || first == "secrets" {
				continue
			}
			names++
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Errorf("%s names %s, which does not exist", page.Path, name)
			}
		}
	}
	if names < 60 {
		t.Errorf("only %d names: the check has lost its way", names)
	}
}

// TestDocs_LinksLead follows every link between documents, to its heading.
func TestDocs_LinksLead(t *testing.T) {
	t.Parallel()
	all := pages(t)
	anchors := map[string][]string{}
	for _, page := range all {
		anchors[page.Path] = page.Anchors
	}
	links, headings := 0, 0
	for _, page := range all {
		for _, l := range page.Links {
			links++
			to := page.Path
			if l.Path != "" {
				to = filepath.Join(filepath.Dir(page.Path), l.Path)
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s:%d links to %s, which does not exist", page.Path, l.Line, l.Path)
				continue
			}
			if l.Anchor == "" {
				continue
			}
			headings++
			if !slices.Contains(anchors[to], l.Anchor) {
				t.Errorf("%s:%d links to the heading #%s of %s, which has no such one", page.Path, l.Line, l.Anchor, to)
			}
		}
	}
	if links < 60 || headings < 10 {
		t.Errorf("only %d links and %d of them to headings: the check has lost its way", links, headings)
	}
}

func pages(t *testing.T) []mdtest.Page {
	t.Helper()
	all, err := mdtest.Pages(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Fatalf("only %d documents: the check has lost its way", len(all))
	}
	return all
}

// checkSource wants the file and, when a name is given, its declaration there.
// A path may begin at the root or be short for a place that it ends.
func checkSource(t *testing.T, doc, file, name string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		// A service's own document names its files from its folder.
		if text, err = os.ReadFile(filepath.Join(root, filepath.Dir(doc), file)); err != nil {
			t.Errorf("%s names %s, which does not exist", doc, file)
			return
		}
	}
	if name == "" {
		return
	}
	declared := regexp.MustCompile(`(?m)^(?:func (?:\([^)]*\) )?|type |var |const |\t)` + regexp.QuoteMeta(name) + `\b`)
	if !declared.Match(text) {
		t.Errorf("%s names %s of %s, which does not declare it", doc, name, file)
	}
}
