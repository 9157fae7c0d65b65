package archtest

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A test that the Makefile's VOLUME names is left out under the race detector, so its
// folder must be one of those that run such tests without it: elsewhere nothing ran it.
func TestTestsOfVolumeRun(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	volume, race, runs := variable(t, text, "VOLUME"), variable(t, text, "RACE"), variable(t, text, "OFVOLUME")
	names, err := regexp.Compile(strings.ReplaceAll(volume, "$$", "$"))
	if err != nil {
		t.Fatalf("VOLUME is no regular expression: %v", err)
	}
	under := func(list, dir string) bool {
		for _, folder := range strings.Fields(list) {
			folder = strings.TrimPrefix(folder, "./")
			if parent, all := strings.CutSuffix(folder, "/..."); dir == folder || all && (dir == parent || strings.HasPrefix(dir, parent+"/")) {
				return true
			}
		}
		return false
	}
	found := 0
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !names.MatchString(f.Name.Name) || !under(race, s.dir) {
				continue
			}
			found++
			if !under(runs, s.dir) {
				t.Errorf("%s: %s is left out under the race detector (VOLUME in the Makefile), and %s is not in OFVOLUME", s.path, f.Name.Name, s.dir)
			}
		}
	}
	if found == 0 {
		t.Error("VOLUME names no test: is it read as it is written?")
	}
}

// variable is the value of a variable of the Makefile.
func variable(t *testing.T, makefile []byte, name string) string {
	t.Helper()
	joined := strings.ReplaceAll(string(makefile), "\\\n", " ")
	m := regexp.MustCompile(`(?m)^` + name + ` :?=(.*)$`).FindStringSubmatch(joined)
	if m == nil {
		t.Fatalf("the Makefile has no %s", name)
	}
	return strings.TrimSpace(m[1])
}
