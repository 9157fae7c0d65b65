package spec

import (
	"os"
	"strings"
	"testing"
)

// docs/callbacks.md shows a definition that is valid and takes what its command
// names.
func TestCallback_DocumentationIsTrue(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/callbacks.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "```yaml\n")
	document, _, ended := strings.Cut(rest, "```")
	if !ok || !ended {
		t.Fatal("docs/callbacks.md shows no document")
	}
	docs, err := Parse("docs/callbacks.md", []byte(document))
	if err != nil {
		t.Fatal(err)
	}
	callback := docs[0].Agent.Callback
	for address, good := range map[string]bool{
		"https://shop.example/holdfast/ended": true, "https://SHOP.example:8443/": true, "http://a.b.shop.example": true,
		"https://shop.example.evil.example/": false, "https://myshop.example/": false, "https://.shop.example/": false,
	} {
		if err := callback.CheckURL(address); (err == nil) != good {
			t.Errorf("%s: %v, want it taken: %t", address, err, good)
		}
	}
}
