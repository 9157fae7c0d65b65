package webhook

import (
	"os"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/spec"
)

// docs/webhooks.md has a row for each provider, and its documents are valid.
func TestDocs_EveryProvider(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/webhooks.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range spec.Providers() {
		if !strings.Contains(string(text), "\n| `"+name+"` |") {
			t.Errorf("docs/webhooks.md has no row for the provider %s", name)
		}
	}
	parts := strings.Split(string(text), "```yaml\n")
	for _, part := range parts[1:] {
		document, _, _ := strings.Cut(part, "```")
		if _, err := spec.Parse("docs/webhooks.md", []byte(document)); err != nil {
			t.Error(err)
		}
	}
	if len(parts) < 3 {
		t.Errorf("docs/webhooks.md shows %d documents", len(parts)-1)
	}
}
