package toolfile_test

import (
	"os"
	"testing"

	"github.com/holdfast-run/holdfast/internal/toolfile"
)

// A description from somewhere else gives documents that apply takes, or says why not.
func FuzzFromOpenAPI(f *testing.F) {
	for _, name := range []string{"shop30.yaml", "shop31.json"} {
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("openapi: 3.1.0\npaths:\n  /a/{b}:\n    get: {parameters: [{name: b, in: path, required: true, schema: {$ref: '#/components/schemas/S'}}]}\ncomponents: {schemas: {S: {$ref: '#/components/schemas/S'}}}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		documents, skipped, err := toolfile.FromOpenAPI(text, toolfile.OpenAPIOptions{Server: "https://shop.example"})
		if err != nil && (documents != nil || skipped != nil) {
			t.Error("documents beside an error")
		}
		names := map[string]bool{}
		for _, d := range documents {
			if names[d.Name] {
				t.Errorf("two tools are called %s", d.Name)
			}
			names[d.Name] = true
			if err := d.Check(); err != nil {
				t.Errorf("apply would refuse %s: %v", d.Name, err)
			}
		}
		for _, s := range skipped {
			if s.Reason == "" {
				t.Errorf("%s is left out without a reason", s.Name)
			}
		}
	})
}
