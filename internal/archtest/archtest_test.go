package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

// source is one Go file of the repository.
type source struct {
	path string // from the root
	dir  string
	file *ast.File
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") || isTestSupport(s.dir) }

// sources parses every Go file. It reads them through os, so that the test
// cache notices edits.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules") {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		all = append(all, source{path: rel, dir: filepath.ToSlash(filepath.Dir(rel)), file: f})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 50 {
		t.Fatalf("only %d Go files found from %s", len(all), root)
	}
	return all
}

func TestImports(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		folder, r, ok := ruleOf(s.dir)
		if !ok {
			t.Errorf("%s: no rule covers this folder; add one to internal/archtest/rules.go", s.dir)
			continue
		}
		for _, spec := range s.file.Imports {
			imp, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			for _, complaint := range judge(s, folder, r, imp) {
				t.Error(complaint)
			}
		}
	}
}

// judge returns what is wrong with one import.
func judge(s source, folder string, r rule, imp string) (complaints []string) {
	dep, ours := strings.CutPrefix(imp, Module)
	switch {
	case ours:
		if !allowed(s.dir, folder, dep, r, s.isTest()) {
			complaints = append(complaints, s.path+" imports "+dep+": "+folder+" may import "+strings.Join(r.may, ", "))
		}
		if isTestSupport(dep) && !s.isTest() {
			complaints = append(complaints, s.path+" imports "+dep+": what ships must not depend on what tests need")
		}
		if mine, ok := serviceOf(s.dir); ok {
			if other, ok := serviceOf(dep); ok && other != mine {
				complaints = append(complaints, s.path+" imports "+dep+": services meet in pkg/events only")
			}
		}
	case strings.Contains(strings.SplitN(imp, "/", 2)[0], "."):
		if !allowedLib(imp, r, s.isTest()) {
			complaints = append(complaints, s.path+" imports "+imp+": "+folder+" may use "+strings.Join(r.libs, ", "))
		}
	}
	return complaints
}

// TestJudge checks the checker: a rule that lets everything pass is no rule.
func TestJudge(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		file, imp string
		want      bool // may it?
	}{
		"the contract stands alone":                    {"pkg/events/x.go", Module + "internal/fault", false},
		"the contract has no library":                  {"pkg/events/x.go", "github.com/google/uuid", false},
		"the contract's tests stay outside as well":    {"pkg/events/x_test.go", Module + "internal/pgtest", false},
		"a domain uses the kit":                        {"services/runner/x.go", Module + "internal/lifecycle", true},
		"a domain uses the contract":                   {"services/runner/x.go", Module + "pkg/events", true},
		"a domain has no bus":                          {"services/runner/x.go", Module + "internal/bus", false},
		"a domain has no database":                     {"services/runner/x.go", Module + "internal/pg", false},
		"a domain has no driver":                       {"services/runner/x.go", "github.com/jackc/pgx/v5", false},
		"a domain has no client":                       {"services/runner/x.go", "github.com/nats-io/nats.go/jetstream", false},
		"a domain does not know its adapters":          {"services/runner/x.go", Module + "services/runner/postgres", false},
		"a domain's tests may know them":               {"services/runner/x_test.go", Module + "services/runner/postgres", true},
		"an adapter knows its service":                 {"services/runner/postgres/x.go", Module + "services/runner", true},
		"an adapter does not know its neighbour":       {"services/runner/postgres/x.go", Module + "services/runner/model", false},
		"an adapter has its driver":                    {"services/runner/postgres/x.go", "github.com/jackc/pgx/v5/pgxpool", true},
		"an adapter has no other driver":               {"services/runner/postgres/x.go", "github.com/nats-io/nats.go", false},
		"services do not meet":                         {"services/runner/x.go", Module + "services/tools", false},
		"nor do their adapters":                        {"services/runner/postgres/x.go", Module + "services/tools/postgres", false},
		"nor do their tests":                           {"services/runner/x_test.go", Module + "services/tools", false},
		"the kit knows no service":                     {"internal/bus/x.go", Module + "services/runner", false},
		"shipping code has no test support":            {"internal/door/x.go", Module + "internal/pgtest", false},
		"tests have it":                                {"internal/door/x_test.go", Module + "internal/pgtest", true},
		"the command sees all services":                {"cmd/holdfast/x.go", Module + "services/tools/kind", true},
		"the command has no test support":              {"cmd/holdfast/x.go", Module + "internal/bustest", false},
		"a folder's parts know each other":             {"services/runner/model/x.go", Module + "services/runner/model/anthropic", true},
		"similar names are not the same folder":        {"internal/pg/x.go", Module + "internal/pgdev", false},
		"a library's prefix is not the library":        {"services/runner/postgres/x.go", "github.com/jackc/pgx/v5x", false},
		"the standard library is free":                 {"pkg/events/x.go", "encoding/json", true},
		"test support may have what tests have":        {"internal/door/doortest/x.go", Module + "internal/authn", true},
		"the demo does not look into the services":     {"internal/demo/x.go", Module + "services/runner", false},
		"the demo does not reach for the bus":          {"internal/demo/x.go", Module + "internal/bus", false},
		"the private Postgres needs no database drive": {"internal/pgdev/x.go", "github.com/jackc/pgx/v5", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := source{path: tc.file, dir: filepath.ToSlash(filepath.Dir(tc.file))}
			folder, r, ok := ruleOf(s.dir)
			if !ok {
				t.Fatalf("no rule for %s", s.dir)
			}
			if got := judge(s, folder, r, tc.imp); (len(got) == 0) != tc.want {
				t.Errorf("%s importing %s: complaints %q, want allowed = %v", tc.file, tc.imp, got, tc.want)
			}
		})
	}
	if _, _, ok := ruleOf("internal/unheard"); ok {
		t.Error("a new folder needs no rule")
	}
}

func TestPackageComments(t *testing.T) {
	t.Parallel()
	documented := map[string]bool{}
	for _, s := range sources(t) {
		if strings.HasSuffix(s.path, "_test.go") {
			continue
		}
		doc := s.file.Doc.Text()
		want := "Package " + s.file.Name.Name + " "
		if s.file.Name.Name == "main" {
			want = "Command " + filepath.Base(s.dir) + " "
		}
		if doc != "" && !strings.HasPrefix(doc, want) {
			t.Errorf("%s: package comment begins %.40q, want %q", s.path, doc, want)
		}
		documented[s.dir] = documented[s.dir] || doc != ""
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s: no file has a package comment", dir)
		}
	}
}

// TestServicesHaveTests demands that each folder of a service has tests, of its
// own or of another folder of the service that imports it.
func TestServicesHaveTests(t *testing.T) {
	t.Parallel()
	tested := map[string]bool{}
	for _, s := range sources(t) {
		service, ok := serviceOf(s.dir)
		if !ok {
			continue
		}
		isTest := strings.HasSuffix(s.path, "_test.go")
		for _, dir := range []string{"services/" + service, s.dir} {
			tested[dir] = tested[dir] || isTest
		}
		if !isTest {
			continue
		}
		for _, spec := range s.file.Imports {
			if dep, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), Module); ours && within(dep, "services/"+service) {
				tested[dep] = true
			}
		}
	}
	for dir, ok := range tested {
		if !ok {
			t.Errorf("%s: no test", dir)
		}
	}
	if len(tested) < 5 {
		t.Errorf("only %d folders of services", len(tested))
	}
}

// mayReadEnvironment lists the folders whose shipping code may: the command,
// failpoints (armed from outside only), references to secrets in definitions,
// the lab, which starts the command, and the scripts of make and CI.
var mayReadEnvironment = []string{"cmd/holdfast", "examples", "internal/failpoint", "internal/egress", "internal/lab", "scripts"}

func TestOnlyTheCommandReadsTheEnvironment(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.isTest() || slices.ContainsFunc(mayReadEnvironment, func(f string) bool { return within(s.dir, f) }) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := sel.X.(*ast.Ident)
			if ok && pkg.Name == "os" && slices.Contains([]string{"Getenv", "LookupEnv", "Environ", "ExpandEnv"}, sel.Sel.Name) {
				t.Errorf("%s calls os.%s: settings come in a Config, from flags", s.path, sel.Sel.Name)
			}
			return true
		})
	}
}
