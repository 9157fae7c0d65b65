package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTally(t *testing.T) {
	t.Parallel()
	const (
		pass     = `{"Action":"pass","Package":"p","Test":"TestA"}`
		fail     = `{"Action":"fail","Package":"p","Test":"TestB"}`
		skip     = `{"Action":"skip","Package":"p","Test":"TestC"}`
		output   = `{"Action":"output","Package":"p","Test":"TestB","Output":"want 1\n"}`
		quiet    = `{"Action":"output","Package":"p","Test":"TestA","Output":"noise\n"}`
		okPkg    = `{"Action":"pass","Package":"p","Elapsed":1.25}`
		failPkg  = `{"Action":"fail","Package":"p","Elapsed":1.25}`
		building = `{"ImportPath":"q","Action":"build-output","Output":"q.go:1: syntax\n"}`
		nobuild  = `{"ImportPath":"q","Action":"build-fail"}`
	)
	cases := map[string]struct {
		lines []string
		ci    bool
		want  string
		ok    bool
	}{
		"all pass":                         {[]string{quiet, pass, okPkg}, true, "ok   p (1.2 s)\n1 passed, 0 failed\n", true},
		"a failure is shown":               {[]string{pass, output, fail, failPkg}, false, "want 1\nFAIL p (1.2 s)\n1 passed, 1 failed\n", false},
		"a skip on a laptop":               {[]string{pass, skip, okPkg}, false, "ok   p (1.2 s)\n1 passed, 0 failed, 1 skipped\n", true},
		"a skip in CI":                     {[]string{pass, skip, okPkg}, true, "ok   p (1.2 s)\nskipped, which CI does not allow:\n  p TestC\n1 passed, 0 failed, 1 skipped\n", false},
		"what does not build":              {[]string{pass, building, nobuild, failPkg}, false, "q.go:1: syntax\nFAIL p (1.2 s)\n1 passed, 1 failed\n", false},
		"no test at all is no success":     {[]string{okPkg}, false, "ok   p (1.2 s)\n0 passed, 0 failed\n", false},
		"a line that is not ours is shown": {[]string{"go: downloading x", pass}, false, "go: downloading x\n1 passed, 0 failed\n", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			sum := &tally{out: &out}
			if err := sum.read(strings.NewReader(strings.Join(tc.lines, "\n") + "\n")); err != nil {
				t.Fatal(err)
			}
			ok := sum.report(tc.ci)
			if diff := cmp.Diff(tc.want, out.String()); ok != tc.ok || diff != "" {
				t.Errorf("ok = %v, want %v; output (-want +got):\n%s", ok, tc.ok, diff)
			}
		})
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	got, err := split([]string{"-p", "2", "--", "./a", "./b", "--", "-race", "--", "./c"})
	if err != nil {
		t.Fatal(err)
	}
	want := []group{{flags: []string{"-p", "2"}, packages: []string{"./a", "./b"}}, {flags: []string{"-race"}, packages: []string{"./c"}}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(group{})); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	for _, bad := range [][]string{{"./a"}, {"-race", "--"}} {
		if _, err := split(bad); err == nil {
			t.Errorf("split(%q) succeeded", bad)
		}
	}
}
