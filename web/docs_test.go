package web

import (
	"os"
	"strings"
	"testing"
)

// TestDocs_EveryPageIsNamed wants each page of the menu in docs/console.md.
func TestDocs_EveryPageIsNamed(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/console.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range menu {
		if !strings.Contains(string(text), "| **"+e.Title+"** |") {
			t.Errorf("docs/console.md has no row for the page %q: say what it answers", e.Title)
		}
	}
}
