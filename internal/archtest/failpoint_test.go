package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/failpoint"
)

// TestPlaces holds the list of failpoints against the code: a name that is hit and not
// listed would be killed at by nobody, one that is listed and not hit never.
func TestPlaces(t *testing.T) {
	t.Parallel()
	hit := map[string][]string{} // name, or a suffix behind "*", to where
	consts := constants(t)
	for _, s := range sources(t) {
		if s.isTest() || s.dir == "internal/failpoint" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 2 || !selects(call.Fun, "failpoint", "Hit") {
				return true
			}
			name := named(call.Args[0], func(c string) string { return consts[s.dir+"."+c] })
			if name == "" {
				t.Errorf("%s: a failpoint's name is written where it is hit, or a constant of the package", s.path)
			}
			hit[name] = append(hit[name], s.path)
			return true
		})
	}
	listed := map[string]bool{}
	for _, p := range failpoint.Places() {
		if listed[p.Name] || p.What == "" || len(p.In) == 0 {
			t.Errorf("%s: listed twice, or without what it is or where", p.Name)
		}
		listed[p.Name] = true
		_, tail, _ := strings.Cut(p.Name, ".")
		if hit[p.Name] == nil && hit["*."+tail] == nil {
			t.Errorf("%s is listed in internal/failpoint/place.go and hit nowhere", p.Name)
		}
	}
	for name, where := range hit {
		suffix, any := strings.CutPrefix(name, "*")
		if !listed[name] && !(any && slices.ContainsFunc(failpoint.Places(), func(p failpoint.Place) bool { return strings.HasSuffix(p.Name, suffix) })) {
			t.Errorf("%q is hit in %s and not listed in internal/failpoint/place.go", name, where)
		}
	}
	if len(listed) < 30 {
		t.Errorf("only %d places", len(listed))
	}
}

func selects(f ast.Expr, pkg, name string) bool {
	sel, ok := f.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == pkg
}

// named is the text of an expression; of schema+".forgot" it is "*.forgot".
func named(e ast.Expr, constant func(string) string) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		if err != nil {
			return ""
		}
		return text
	case *ast.Ident:
		return constant(e.Name)
	case *ast.BinaryExpr:
		if tail := named(e.Y, constant); e.Op == token.ADD && tail != "" {
			return "*" + tail
		}
	}
	return ""
}

// constants maps "<folder>.<name>" to the text of each constant of a package.
func constants(t *testing.T) map[string]string {
	all := map[string]string{}
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || decl.Tok != token.CONST {
				continue
			}
			for _, spec := range decl.Specs {
				v := spec.(*ast.ValueSpec)
				for i, name := range v.Names {
					if i < len(v.Values) {
						all[s.dir+"."+name.Name] = named(v.Values[i], func(string) string { return "" })
					}
				}
			}
		}
	}
	return all
}
