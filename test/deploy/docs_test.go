package deploy

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// span is inline code; a line never holds half of one.
	span = regexp.MustCompile("`([^`\n]+)`")
	link = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)
	// source is a file, and a name that it declares: "services/x/y.go: Name".
	source = regexp.MustCompile(`^([\w./-]+\.go)(?:: (\w+))?$`)
	path   = regexp.MustCompile(`^[\w./-]+$`)
)

// TestDocs_NameWhatExists reads every document of the project and wants each
// file, folder and declaration that it names.
func TestDocs_NameWhatExists(t *testing.T) {
	t.Parallel()
	const root = "../.."
	tops := map[string]bool{}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		tops[e.Name()] = true
	}
	docs, names := 0, 0
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == ".holdfast" || d.Name() == "bin" || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(file, ".md") {
			return nil
		}
		docs++
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			names++
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), m[1])); err != nil {
				t.Errorf("%s links to %s, which does not exist", file, m[1])
			}
		}
		for _, m := range span.FindAllStringSubmatch(prose(string(text)), -1) {
			name := m[1]
			if s := source.FindStringSubmatch(name); s != nil && strings.Contains(s[1], "/") {
				names++
				checkSource(t, root, file, s[1], s[2])
				continue
			}
			first, _, below := strings.Cut(name, "/")
			if !below || !path.MatchString(name) || !tops[first] || first == "bin" || first == "secrets" {
				continue
			}
			names++
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Errorf("%s names %s, which does not exist", file, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if docs < 10 || names < 60 {
		t.Errorf("only %d names in %d documents: the check has lost its way", names, docs)
	}
}

// checkSource wants the file and, when a name is given, its declaration there.
// A path may begin at the root or be short for a place that it ends.
func checkSource(t *testing.T, root, doc, file, name string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		// A service's own document names its files from its folder.
		if text, err = os.ReadFile(filepath.Join(filepath.Dir(doc), file)); err != nil {
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

// prose is a document without its blocks of code.
func prose(text string) string {
	var out []string
	code := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
			continue
		}
		if !code {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}
