package mdtest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	t.Parallel()
	const text = "# One `x.y` [two](b.md#c)\n\n" +
		"<!-- in tests: https://a => $B -->\n<!-- not run: no cluster -->\n```sh\nls\n```\n" +
		"1. item\n\n   ```yaml\n   a:\n     b: 1\n   ```\n\n<!-- run\ntrue\n-->\n" +
		"<!-- not run: nothing follows -->\nwords `](no.md)` ](https://x)\n\n# One xy two\n\n```\nopen\n"
	got := parse("a.md", text)
	want := []Block{
		{Line: 6, Lang: "sh", Text: "ls\n", NotRun: "no cluster"},
		{Line: 11, Lang: "yaml", Text: "a:\n  b: 1\n"},
		{Line: 16, Lang: Hidden, Text: "true\n"},
		{Line: 24, Lang: "", Text: "open\n\n"},
	}
	if diff := cmp.Diff(want, got.Blocks); diff != "" {
		t.Errorf("blocks (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"one-xy-two", "one-xy-two-1"}, got.Anchors); diff != "" {
		t.Errorf("anchors (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Link{{1, "b.md", "c"}}, got.Links); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Replace{{"https://a", "$B"}}, got.Replaces); diff != "" {
		t.Errorf("replacements (-want +got):\n%s", diff)
	}
}
