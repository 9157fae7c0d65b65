package mdtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Page is one document.
type Page struct {
	Path     string // from the root of the repository
	Blocks   []Block
	Prose    string   // without blocks of code
	Anchors  []string // of its headings
	Links    []Link
	Replaces []Replace
}

// Block is one fenced block of code, or commands in a comment.
type Block struct {
	Line   int    // of its first line
	Lang   string // what stands behind the fence; Hidden for a comment
	Text   string // without its indent
	NotRun string // the reason in the comment before it
}

// Hidden is the language of commands that readers do not see: a comment that
// begins with "<!-- run" on a line of its own.
const Hidden = "hidden"

// Replace is a comment "<!-- in tests: OLD => NEW -->": what the page says and
// what its test runs.
type Replace struct{ Old, New string }

// Link is a link within the project.
type Link struct {
	Line         int
	Path, Anchor string // Path is empty for a link within the page
}

var (
	notRun   = regexp.MustCompile(`^<!-- not run: (.+) -->$`)
	inTests  = regexp.MustCompile(`^<!-- in tests: (.+) => (.+) -->$`)
	linkTo   = regexp.MustCompile(`\]\(([^)\s]*)\)`)
	codeSpan = regexp.MustCompile("`[^`\n]*`")
	heading  = regexp.MustCompile(`^#{1,6} +(.+?) *#*$`)
	noAnchor = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	linkText = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// Read takes a page apart.
func Read(root, path string) (Page, error) {
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return Page{}, err
	}
	return parse(path, string(text)), nil
}

func parse(path, text string) Page {
	p := Page{Path: path}
	var open *Block
	var prose []string
	fence, indent, reason := "", "", ""
	seen := map[string]int{}
	for i, line := range strings.Split(text, "\n") {
		bare := strings.TrimSpace(line)
		switch {
		case open != nil && bare == fence:
			p.Blocks = append(p.Blocks, *open)
			open = nil
		case open != nil:
			open.Text += strings.TrimPrefix(line, indent) + "\n"
		case strings.HasPrefix(bare, "```"):
			indent = line[:len(line)-len(strings.TrimLeft(line, " "))]
			open, fence = &Block{Line: i + 2, Lang: strings.TrimPrefix(bare, "```"), NotRun: reason}, "```"
			reason = ""
		case bare == "<!-- run":
			open, fence, indent = &Block{Line: i + 2, Lang: Hidden}, "-->", ""
		default:
			if m := notRun.FindStringSubmatch(bare); m != nil {
				reason = m[1]
			} else if bare != "" {
				reason = ""
			}
			if m := inTests.FindStringSubmatch(bare); m != nil {
				p.Replaces = append(p.Replaces, Replace{m[1], m[2]})
			}
			prose = append(prose, line)
			if m := heading.FindStringSubmatch(line); m != nil {
				p.Anchors = append(p.Anchors, anchor(m[1], seen))
			}
			for _, m := range linkTo.FindAllStringSubmatch(codeSpan.ReplaceAllString(line, ""), -1) {
				if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
					continue
				}
				path, anchor, _ := strings.Cut(m[1], "#")
				p.Links = append(p.Links, Link{i + 1, path, anchor})
			}
		}
	}
	if open != nil {
		p.Blocks = append(p.Blocks, *open)
	}
	p.Prose = strings.Join(prose, "\n")
	return p
}

// anchor is the name that a heading gets: lower case, without marks, a dash for
// each blank; a name that is there already is numbered.
func anchor(title string, seen map[string]int) string {
	title = linkText.ReplaceAllString(title, "$1")
	name := strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(title), ""), " ", "-")
	n := seen[name]
	seen[name]++
	if n > 0 {
		return name + "-" + string(rune('0'+n))
	}
	return name
}

// Pages reads every document below the root but those of test data.
func Pages(root string) ([]Page, error) {
	var all []Page
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{".git", ".holdfast", "bin", "testdata", "node_modules"}, d.Name()) {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(file, ".md") {
			return nil
		}
		path, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		p, err := Read(root, path)
		all = append(all, p)
		return err
	})
	return all, err
}
