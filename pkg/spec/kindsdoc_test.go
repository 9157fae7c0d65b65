package spec

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

//go:generate go test -run ^TestKindsDoc$ . -args -update

const kindsDoc = "../../docs/reference/kinds.md"

// TestKindsDoc keeps docs/reference/kinds.md in step with the code: the fields are
// those of the structs, their words the comments, their bounds and defaults what check
// and fill do. Rewrite it with go generate ./pkg/spec.
func TestKindsDoc(t *testing.T) {
	t.Parallel()
	d := readKinds(t)
	var b strings.Builder
	b.WriteString(`# Kinds

<!-- Generated from pkg/spec by "go generate ./pkg/spec". Do not edit. -->

A document is ` + "`apiVersion: holdfast/v1`, `kind`, `metadata: {name, namespace, labels}` and `spec`" + `: the fields below. ` + "`holdfast validate -f FILE`" + ` says what is wrong with
one, with its place; ` + "`holdfast apply -f FILE`" + ` stores it. A field that no kind knows is an error. Guides: [agents](../agents.md), [flows](../flows.md), [tools](../tools.md),
[models](../models.md), [webhooks](../webhooks.md), [budgets](../budgets.md), [channels](../channels.md).

`)
	for _, name := range kindOrder {
		fmt.Fprintf(&b, "- [%s](#%s)\n", name, strings.ToLower(name))
	}
	b.WriteString("- [Values](#values)\n")
	for _, name := range kindOrder {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| field | value | default | bounds | what |\n|---|---|---|---|---|\n", name, sentence(d.docs[name]))
		d.rows(&b, "", d.named(name), nil)
	}
	b.WriteString("\n## Values\n\n| value | is |\n|---|---|\n")
	for _, name := range slices.Sorted(slices.Values(d.values)) {
		fmt.Fprintf(&b, "| %s | %s |\n", name, inCell(sentence(d.docs[name])))
	}
	for _, field := range d.silent {
		t.Errorf("%s has no comment, so the reference says nothing about it", field)
	}
	if d.fields < 150 || d.bounded < 60 || d.defaults < 10 {
		t.Errorf("only %d fields, %d with bounds, %d defaults: the reader of the code has lost its way", d.fields, d.bounded, d.defaults)
	}
	if *update {
		if err := os.WriteFile(kindsDoc, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(kindsDoc)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.String(), string(got)); diff != "" {
		t.Errorf("docs/reference/kinds.md is stale, run go generate ./pkg/spec (-want +got):\n%s", diff)
	}
}

var kindOrder = []string{"Agent", "Flow", "Tool", "Model", "Webhook", "Schedule", "Budget", "MCPServer", "Channel"}

// longForms names the struct that is the long form of a value.
var longForms = map[string]string{"Approval": "approvalForm"}

type kinds struct {
	pkg                       *types.Package
	info                      *types.Info
	docs                      map[string]string    // of types
	words                     map[token.Pos]string // of fields, by the place of their name
	bounds                    map[types.Object]string
	given                     map[types.Object]string // defaults
	values                    []string
	silent                    []string // fields without a comment
	fields, bounded, defaults int
}

// readKinds type-checks the package without its libraries: constants and fields need none.
func readKinds(t *testing.T) *kinds {
	t.Helper()
	fset := token.NewFileSet()
	d := &kinds{docs: map[string]string{}, words: map[token.Pos]string{}, bounds: map[types.Object]string{}, given: map[types.Object]string{}}
	files := parseFolder(t, fset, ".")
	d.info = &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}, Defs: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: sources{t, fset}, Error: func(error) {}} // of libraries nothing is known
	d.pkg, _ = conf.Check("spec", fset, files, d.info)
	for _, f := range files {
		for _, decl := range f.Decls {
			switch decl := decl.(type) {
			case *ast.GenDecl:
				d.types(decl)
			case *ast.FuncDecl:
				if decl.Body != nil {
					d.rules(decl)
				}
			}
		}
	}
	return d
}

func parseFolder(t *testing.T, fset *token.FileSet, dir string) (files []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// sources imports what constants are made of.
type sources struct {
	t    *testing.T
	fset *token.FileSet
}

const timeSource = `package time
type Duration int64
const (Nanosecond Duration = 1; Microsecond = 1000 * Nanosecond; Millisecond = 1000 * Microsecond; Second = 1000 * Millisecond; Minute = 60 * Second; Hour = 60 * Minute)`

func (s sources) Import(path string) (*types.Package, error) {
	conf := types.Config{Importer: s, Error: func(error) {}}
	switch {
	case path == "time":
		f, err := parser.ParseFile(s.fset, "time.go", timeSource, 0)
		if err != nil {
			return nil, err
		}
		return conf.Check("time", s.fset, []*ast.File{f}, nil)
	case strings.HasSuffix(path, "/pkg/events"):
		pkg, _ := conf.Check(path, s.fset, parseFolder(s.t, s.fset, "../events"), nil)
		return pkg, nil
	}
	return nil, fmt.Errorf("%s is not needed", path)
}

func (d *kinds) types(decl *ast.GenDecl) {
	for _, spec := range decl.Specs {
		spec, ok := spec.(*ast.TypeSpec)
		if !ok {
			continue
		}
		doc := spec.Doc
		if doc == nil {
			doc = decl.Doc
		}
		d.docs[spec.Name.Name] = doc.Text()
		if s, ok := spec.Type.(*ast.StructType); ok {
			for _, f := range s.Fields.List {
				for _, name := range f.Names {
					d.words[name.Pos()] = f.Doc.Text() + f.Comment.Text()
				}
			}
		}
	}
}

// rules takes bounds from check's calls of the decoder, and defaults from fill.
func (d *kinds) rules(f *ast.FuncDecl) {
	top := map[ast.Node]bool{}
	for _, s := range f.Body.List {
		if e, ok := s.(*ast.ExprStmt); ok {
			top[e.X] = true
		}
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if f.Name.Name == "fill" && len(n.Lhs) == 1 && len(n.Rhs) == 1 {
				if field := d.field(n.Lhs[0]); field != nil {
					if v := d.constant(n.Rhs[0]); v != "" {
						d.given[field] = v
					}
				}
			}
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && len(n.Args) >= 2 {
				if on, ok := sel.X.(*ast.Ident); ok && on.Name == "d" {
					d.rule(sel.Sel.Name, n.Args[1], n.Args[2:], top[n])
				}
			}
		}
		return true
	})
}

func (d *kinds) rule(method string, value ast.Expr, args []ast.Expr, always bool) {
	field := d.field(value)
	if method == "require" {
		if c, ok := value.(*ast.BinaryExpr); ok && always && (c.Op == token.NEQ || c.Op == token.GTR) {
			if field = d.field(c.X); field != nil {
				d.bound(field, "required")
			}
		}
		return
	}
	if field == nil {
		return
	}
	var list []string
	for _, a := range args {
		v := d.constant(a)
		if n, err := strconv.ParseInt(v, 10, 64); err == nil && method == "text" && n >= 1<<10 && n%(1<<10) == 0 {
			v = fmt.Sprintf("%d Ki", n>>10)
		}
		if v != "" {
			list = append(list, v)
		}
	}
	switch {
	case (method == "between" || method == "within") && len(list) == 2:
		d.bound(field, list[0]+" to "+list[1])
	case method == "oneOf" && len(list) > 0 && len(list) == len(args):
		d.bound(field, "`"+strings.Join(list, "`, `")+"`")
	case method == "text" && len(list) == 1:
		d.bound(field, "at most "+list[0]+" bytes")
	case method == "nameList" && len(list) == 1:
		d.bound(field, "at most "+list[0]+" names")
	}
}

func (d *kinds) bound(field types.Object, text string) {
	if have := d.bounds[field]; have == "" {
		d.bounds[field] = text
	} else if !strings.Contains(have, text) {
		d.bounds[field] = have + "; " + text
	}
}

// field is the field that an expression reads; nil when it is none.
func (d *kinds) field(e ast.Expr) types.Object {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		if s := d.info.Selections[e]; s != nil && s.Kind() == types.FieldVal {
			return s.Obj()
		}
	case *ast.CallExpr: // a conversion, or len
		if len(e.Args) == 1 {
			return d.field(e.Args[0])
		}
	case *ast.StarExpr:
		return d.field(e.X)
	}
	return nil
}

func (d *kinds) constant(e ast.Expr) string {
	tv := d.info.Types[e]
	if tv.Value == nil {
		return ""
	}
	if tv.Value.Kind() == constant.String {
		return constant.StringVal(tv.Value)
	}
	n, exact := constant.Int64Val(constant.ToInt(tv.Value))
	if !exact {
		return tv.Value.ExactString()
	}
	if named, ok := tv.Type.(*types.Named); ok && named.Obj().Name() == "Duration" {
		return span(time.Duration(n))
	}
	return fmt.Sprint(n)
}

func span(x time.Duration) string {
	if x >= 48*time.Hour && x%(24*time.Hour) == 0 {
		return fmt.Sprintf("%dd", x/(24*time.Hour))
	}
	text := x.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

func (d *kinds) named(name string) *types.Named {
	return d.pkg.Scope().Lookup(name).Type().(*types.Named)
}

// rows writes a struct's fields, and below each those of what it holds.
func (d *kinds) rows(b *strings.Builder, path string, n *types.Named, above []string) {
	s, ok := n.Underlying().(*types.Struct)
	if !ok || slices.Contains(above, n.Obj().Name()) {
		return
	}
	for i := range s.NumFields() {
		f := s.Field(i)
		name, _, _ := strings.Cut(reflect.StructTag(s.Tag(i)).Get("json"), ",")
		if name == "-" || name == "" {
			continue
		}
		at, inner := path+name, f.Type()
		value, suffix := "", ""
		if p, ok := inner.(*types.Pointer); ok {
			inner = p.Elem()
		}
		if l, ok := inner.Underlying().(*types.Slice); ok {
			if named, own := inner.(*types.Named); !own || d.list(named) {
				inner, value, suffix = l.Elem(), "list of ", "[]"
				if p, ok := inner.(*types.Pointer); ok {
					inner = p.Elem()
				}
			}
		}
		named, _ := inner.(*types.Named)
		opens := named != nil && d.opens(named)
		switch {
		case opens && named.Obj().Name() == "Approval":
			value += "never, always or fields"
		case opens:
			value += "fields"
		case named != nil && named.Obj().Pkg() == d.pkg && d.docs[named.Obj().Name()] != "":
			value += named.Obj().Name()
			if !slices.Contains(d.values, named.Obj().Name()) {
				d.values = append(d.values, named.Obj().Name())
			}
		default:
			value += plainType(inner)
		}
		d.fields++
		if d.words[f.Pos()] == "" && !slices.Contains(d.silent, n.Obj().Name()+"."+f.Name()) {
			d.silent = append(d.silent, n.Obj().Name()+"."+f.Name())
		}
		if d.bounds[f] != "" {
			d.bounded++
		}
		if d.given[f] != "" {
			d.defaults++
		}
		def := d.given[f]
		if def != "" {
			def = "`" + def + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", at, value, def, inCell(d.bounds[f]), inCell(d.said(f, name)))
		if opens {
			if form := longForms[named.Obj().Name()]; form != "" {
				named = d.named(form)
			}
			d.rows(b, at+suffix+".", named, append(slices.Clone(above), n.Obj().Name()))
		}
	}
}

// opens reports whether a type is shown field by field.
func (d *kinds) opens(n *types.Named) bool {
	if n.Obj().Pkg() != d.pkg {
		return false
	}
	if longForms[n.Obj().Name()] != "" {
		return true
	}
	if n.Obj().Name() == "SecretRef" {
		return false // its words say it in a line
	}
	s, ok := n.Underlying().(*types.Struct)
	if !ok {
		return false
	}
	for i := range s.NumFields() {
		if name, _, _ := strings.Cut(reflect.StructTag(s.Tag(i)).Get("json"), ","); name != "" && name != "-" {
			return true
		}
	}
	return false
}

// list reports whether a named slice is shown as the list that it is: one of structs.
func (d *kinds) list(n *types.Named) bool {
	l, ok := n.Underlying().(*types.Slice)
	if !ok {
		return false
	}
	elem, ok := l.Elem().(*types.Named)
	return ok && d.opens(elem)
}

func plainType(t types.Type) string {
	switch u := t.Underlying().(type) {
	case *types.Basic:
		switch {
		case u.Info()&types.IsString != 0:
			return "text"
		case u.Info()&types.IsBoolean != 0:
			return "true or false"
		case u.Info()&types.IsNumeric != 0:
			return "number"
		}
	case *types.Map:
		return "map to " + strings.TrimPrefix(plainType(u.Elem()), "map to ")
	case *types.Slice:
		return "list of " + plainType(u.Elem())
	case *types.Pointer:
		return plainType(u.Elem())
	}
	if n, ok := t.(*types.Named); ok {
		return n.Obj().Name()
	}
	return "any value"
}

// sentence is a comment in one line, in the words of YAML.
func sentence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return strings.NewReplacer("; nil: ", "; absent: ", " is nil when ", " is absent when ").Replace(strings.TrimPrefix(text, "nil: "))
}

func inCell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(text)
}

// goName is a name of Go's within a comment.
var goName = regexp.MustCompile(`\b[A-Z]\w+\b`)

// said is a field's comment in the words of YAML: its own name, and values instead of
// the constants that hold them.
func (d *kinds) said(f *types.Var, name string) string {
	text := sentence(d.words[f.Pos()])
	if rest, ok := strings.CutPrefix(text, f.Name()+" "); ok {
		text = "`" + name + "` " + rest
	}
	return goName.ReplaceAllStringFunc(text, func(word string) string {
		if c, ok := d.pkg.Scope().Lookup(word).(*types.Const); ok && c.Val().Kind() == constant.String {
			return "`" + constant.StringVal(c.Val()) + "`"
		}
		return word
	})
}
