package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// TestDocs_Commands parses every "holdfast ..." line in the code blocks of the
// project's documents with the real command line.
func TestDocs_Commands(t *testing.T) {
	t.Parallel()
	const root = "../.."
	found := 0
	check := func(file string) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code := false
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "```") {
				code = !code
				continue
			}
			args, ok := strings.CutPrefix(strings.TrimPrefix(line, "$ "), "holdfast ")
			if !code || !ok {
				continue
			}
			found++
			parser, err := newParser(&CLI{}, kong.Exit(func(int) {}))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := parser.Parse(words(args)); err != nil {
				t.Errorf("%s: holdfast %s: %v", file, args, err)
			}
		}
	}
	check(root + "/README.md")
	for _, folder := range []string{"docs", "examples", "deploy"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(file string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(file, ".md") && filepath.Base(file) != filepath.Base(cliDoc) { // that one holds patterns
				check(file)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 10 {
		t.Errorf("only %d commands found: the check has lost its way", found)
	}
}

// words splits a line as a shell would, as far as documents need it: quotes, and
// nothing behind a comment, a pipe or a redirection.
func words(line string) (all []string) {
	var word strings.Builder
	var quote rune
	inWord := false
	end := func() {
		if inWord {
			all = append(all, word.String())
		}
		word.Reset()
		inWord = false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, inWord = r, true
		case quote == 0 && strings.ContainsRune("#|>;&", r) && !inWord:
			return all
		case quote == 0 && r == ' ':
			end()
		default:
			inWord = true
			word.WriteRune(r)
		}
	}
	end()
	return all
}
