package demo

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/holdfast-run/holdfast/pkg/spec"
)

// TestDocuments reads the real example: it must keep the shape that the demo
// relies on, and stay valid after the addresses were changed.
func TestDocuments(t *testing.T) {
	t.Parallel()
	docs, err := documents(os.DirFS("../../examples/competitor-monitor"), "http://127.0.0.1:4000/", "claude-next")
	if err != nil {
		t.Fatal(err)
	}
	all := ""
	kinds := map[string]int{}
	for _, d := range docs {
		all += d.Text
		parsed, err := spec.Parse(d.File, []byte(d.Text))
		if err != nil {
			t.Errorf("%s: %v", d.File, err)
		}
		for _, p := range parsed {
			kinds[p.Kind]++
		}
	}
	if n := strings.Count(all, "http://127.0.0.1:4000/shop-"); n != shopCount {
		t.Errorf("%d shops at the local web, want %d", n, shopCount)
	}
	for _, want := range []string{"model: claude-next", "name: " + scheduleName, "{name: " + poolName + "}", "limit: 400000", "toolCalls: 12"} {
		if !strings.Contains(all, want) {
			t.Errorf("the example has no %q", want)
		}
	}
	if kinds["flow"] != 1 || kinds["agent"] != 2 || kinds["tool"] != 2 || kinds["schedule"] != 1 || kinds["budget"] != 1 || kinds["model"] != 1 {
		t.Errorf("kinds %v", kinds)
	}
}

func TestDocuments_Incomplete(t *testing.T) {
	t.Parallel()
	if _, err := documents(fstest.MapFS{"a.yaml": {Data: []byte("kind: Schedule")}}, "http://x", ""); err == nil {
		t.Error("an example without competitors was accepted")
	}
}
